package doctor

import (
	"slices"
	"testing"

	"github.com/venturi-net/venturi/internal/host"
)

// lroBelowBond lets the card merge on a machine that does not forward, and makes it the
// port of a bond. The bond, and a VLAN on it, are ports of the devices with these indexes; 0: of none.
func lroBelowBond(r rig, bondMaster, vlanMaster int) {
	r.home.Sysctls["net.ipv4.ip_forward"] = "0"
	r.card.Features[lroFeature] = host.Feature{Settable: true, Wanted: true, On: true}
	r.card.Master = 20
	bond, vlan := device(20, "bond0", "bond", 1500), device(21, "bond0.7", "vlan", 1500)
	bond.Master, vlan.Master, vlan.Lower = bondMaster, vlanMaster, 20
	r.home.Devices = append(r.home.Devices, bond, vlan)
}

// The cards that carry a tunnel are found below what it sends by.
func TestCardsBelowTunnel(t *testing.T) {
	for what, below := range map[string]func(r rig) []host.NetDevice{
		"a bond": func(r rig) []host.NetDevice {
			r.card.Master = 20
			return []host.NetDevice{device(20, "bond0", "bond", 1500)}
		},
		"a VLAN on a bond": func(r rig) []host.NetDevice {
			r.card.Master = 21
			vlan := device(20, "bond0.7", "vlan", 1500)
			vlan.Lower = 21
			return []host.NetDevice{vlan, device(21, "bond0", "bond", 1500)}
		},
		"a bridge": func(r rig) []host.NetDevice {
			r.card.Master = 20
			return []host.NetDevice{device(20, "br0", "bridge", 1500)}
		},
		"a bridge of Open vSwitch": func(r rig) []host.NetDevice {
			r.card.Master = 21
			return []host.NetDevice{device(20, "br-ex", "openvswitch", 1500), device(21, "ovs-system", "openvswitch", 1500)}
		},
	} {
		r := healthy()
		r.card.UDPHash = []string{"src", "dst"}
		switchOff(r.card, tunnelFeature)
		r.home.Devices = append(r.home.Devices, below(r)...)
		other := r.home.Devices[0] // a port of the same device, which is well but for its offload
		other.Index, other.Name, other.UDPHash = 30, "eth1", []string{"src", "dst", "sport", "dport"}
		unplugged := r.home.Devices[0]
		unplugged.Index, unplugged.Name, unplugged.Up = 31, "eth2", false
		elsewhere := r.home.Devices[0]
		elsewhere.Index, elsewhere.Name, elsewhere.Master = 32, "eth3", 0
		ipip := device(40, "tunl1", "ipip", 1450) // needs nothing of a card, and does not hide the tunnel that does
		ipip.Tunnel = &host.Tunnel{Overhead: 20}
		r.home.Devices = append([]host.NetDevice{ipip}, append(r.home.Devices, other, unplugged, elsewhere)...)
		r.home.Carrier[3], r.home.Carrier[40] = 20, 20
		var got []string
		for _, f := range Judge(r.View, Options{}).Findings {
			got = append(got, f.Code+" "+f.Device)
		}
		if want := []string{"tunnel-segmentation-off eth0", "tunnel-segmentation-off eth1", "rss-ignores-ports eth0"}; !slices.Equal(got, want) {
			t.Errorf("%s: found %q, want %q", what, got, want)
		}
	}
}
