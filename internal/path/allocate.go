package path

import (
	"fmt"

	"github.com/venturi-net/venturi/internal/verr"
)

// Allocate makes the arms of a lab fit together, on so many machines: it gives the
// tunnels VNIs and ports that do not say which, and refuses what cannot be up at once.
// Errors are for a user.
func Allocate(arms []Arm, hosts int) error {
	for _, a := range arms {
		if a.Driver.CheckHosts == nil {
			continue
		}
		if err := a.Driver.CheckHosts(a, hosts); err != nil {
			return err
		}
	}
	if err := allocateVNIs(arms); err != nil {
		return err
	}
	return allocatePorts(arms)
}

// allocatePorts sees that no other device of a machine has the port of one that
// takes all that comes by it. It deals them out as allocateVNIs does.
func allocatePorts(arms []Arm) error {
	taken := map[int]string{} // by which arm
	for _, a := range arms {
		if a.Driver.KernelVXLAN {
			taken[a.Options.Int("port")] = a.Name
		}
	}
	for i := range arms {
		a := &arms[i]
		if a.Driver.OwnPort == 0 || a.Options.Int("port") == 0 {
			continue
		}
		a.Port = a.Options.Int("port")
		if other := taken[a.Port]; other != "" {
			return verr.New(verr.Usage, fmt.Sprintf("cannot raise path %s beside %s", a.Name, other),
				fmt.Sprintf("both have UDP port %d, and %s needs one of its own on a machine", a.Port, a.Driver.Name),
				"give one of them another port=")
		}
		taken[a.Port] = a.Name
	}
	for i := range arms {
		a := &arms[i]
		if a.Driver.OwnPort == 0 || a.Port > 0 {
			continue
		}
		for a.Port = a.Driver.OwnPort; taken[a.Port] != ""; {
			a.Port++
		}
		taken[a.Port] = a.Name
	}
	return nil
}

// tunnelID is what tells the kernel's vxlan devices of one namespace apart.
type tunnelID struct{ vni, port int }

// allocateVNIs sees that no two vxlan devices of a machine have both VNI and port.
// What was asked for is dealt out first; the others get the next that is free.
func allocateVNIs(arms []Arm) error {
	taken := map[tunnelID]string{} // by which arm
	for i := range arms {
		a := &arms[i]
		if !a.Driver.KernelVXLAN || a.Options.Int("vni") == 0 {
			continue
		}
		a.VNI = a.Options.Int("vni")
		if id, other := a.conflict(taken); other != "" {
			return verr.New(verr.Usage, fmt.Sprintf("cannot raise path %s beside %s", a.Name, other),
				fmt.Sprintf("both have a tunnel with VNI %d on UDP port %d, and a machine can have only one", id.vni, id.port),
				"give one of them another vni= or port=")
		}
		a.reserve(taken)
	}
	for i := range arms {
		a := &arms[i]
		if !a.Driver.KernelVXLAN || a.VNI > 0 {
			continue
		}
		for a.VNI = tunnelIndex(a.Nth, 0); ; a.VNI++ {
			if _, other := a.conflict(taken); other == "" {
				break
			}
		}
		a.reserve(taken)
	}
	return nil
}

// tunnels lists what the kernel knows the arm's tunnels by.
func (a Arm) tunnels() []tunnelID {
	ids := make([]tunnelID, a.Options.Int("tunnels"))
	for n := range ids {
		ids[n] = tunnelID{a.VNI + n, a.Options.Int("port")}
	}
	return ids
}

// conflict gives the arm that has one of this one's tunnels already; "": none has.
func (a Arm) conflict(taken map[tunnelID]string) (id tunnelID, arm string) {
	for _, id := range a.tunnels() {
		if arm := taken[id]; arm != "" {
			return id, arm
		}
	}
	return tunnelID{}, ""
}

func (a Arm) reserve(taken map[tunnelID]string) {
	for _, id := range a.tunnels() {
		taken[id] = a.Name
	}
}
