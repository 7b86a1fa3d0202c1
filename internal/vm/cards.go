package vm

import (
	"fmt"
	"slices"

	"github.com/venturi-net/venturi/internal/netcfg"
)

// Models are all models.
var Models = []Model{Virtio, E1000E, VMXNet3}

func (m Model) String() string {
	if m == Virtio {
		return "virtio"
	}
	return string(m)
}

// cardQueues is the number of queue pairs of a multi-queue card.
const cardQueues = 4

// Cards makes the host's side of network cards that are connected to nothing, to test their
// drivers. Of virtio cards only the first has a receive hash, which many hosts do not offer. A guest
// with these NICs must be started in the namespace, which is removed after the guest is closed. It
// takes privileges.
func Cards(models []Model) (nics []NIC, in *netcfg.Namespace, err error) {
	in, err = netcfg.NewAnonymous()
	if err != nil {
		return nil, nil, err
	}
	for i, model := range models {
		n := NIC{Model: model, Tap: fmt.Sprintf("tap%d", i), MAC: fmt.Sprintf("02:00:00:00:00:%02x", i+1)}
		if model == Virtio {
			n.Queues, n.Hash = cardQueues, !slices.Contains(models[:i], Virtio)
		}
		if err := in.AddTap(netcfg.Tap{Name: n.Tap, MTU: 1500, Queues: n.Queues}); err != nil {
			in.Close()
			return nil, nil, err
		}
		nics = append(nics, n)
	}
	return nics, in, nil
}
