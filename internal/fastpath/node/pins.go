package node

import (
	"fmt"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/sanitize"
)

// PinsOf gives the folder with the tables of the fast path that has the packets of a pod in its
// hands, whether it carries them or not. The pod is given by the file of its network namespace.
// Empty: no daemon runs on a node of which it is a pod.
func PinsOf(pod string) string {
	folders, _ := sanitize.Files(Root, "*") // the pattern is sound
	for _, folder := range folders {
		if pins := filesIn(folder).pinsOf(pod); pins != "" {
			return pins
		}
	}
	return ""
}

// pinsOf is PinsOf for the fast path of one node.
func (f files) pinsOf(pod string) string {
	p := f.holder()
	if p == nil {
		return "" // what a killed daemon has left carries nothing
	}
	defer release(p)
	c, err := fastpath.Load(f.config)
	if err != nil {
		return "" // it carries IPv6 alone, or has only begun
	}
	isPod, wire := false, c.Devices.Wire // in a lab, the other end of it is in another node
	err = host.Do(fmt.Sprintf("/proc/%d/ns/net", p.Pid), func() (err error) {
		isPod, err = host.IsPaired(pod, wire)
		return err
	})
	if err != nil || !isPod { // with an error, the daemon or the pod has ended
		return ""
	}
	return seenBy(p, f.pins)
}
