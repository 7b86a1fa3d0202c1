package tune

import (
	"fmt"
	"slices"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/verr"
)

// tunnelKinds are the kinds of devices that put packets into others.
var tunnelKinds = map[string]bool{
	"vxlan": true, "geneve": true, "ipip": true, "sit": true, "ip6tnl": true,
	"gre": true, "gretap": true, "ip6gre": true, "ip6gretap": true, "erspan": true,
}

// vethKinds are those of pods' devices.
var vethKinds = map[string]bool{"veth": true, "netkit": true}

// AddDevice adds a device to the group that its kind belongs to, unless it is there. Error:
// there is no such device (exit code 2).
func (t *Targets) AddDevice(on knob.Target) error {
	scope, err := setting.DeviceScope(on.Netns, on.Device)
	if err != nil {
		return verr.Wrap(verr.Usage, fmt.Sprintf("cannot tune %s", on), err, "list devices with: ip link")
	}
	if slices.Contains(slices.Concat(t.NICs, t.Tunnels, t.Veths), on) {
		return nil // each write is listed once
	}
	switch kind := scope.Device.Kind; {
	case tunnelKinds[kind]:
		t.Tunnels = append(t.Tunnels, on)
	case vethKinds[kind]:
		t.Veths = append(t.Veths, on)
	default:
		t.NICs = append(t.NICs, on)
	}
	return nil
}
