package doctor

import "github.com/venturi-net/venturi/internal/host"

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
