// Package path builds what lies between the ends of traffic: one file a
// driver, one line in [Table].
//
// A driver gets machines that a wire joins and lays its own devices, pods,
// daemons and routes beside those of the other paths; all paths of a lab are
// up at once, and are built at once. It writes only into the namespaces that it
// is handed or asks for, and takes nothing down: deleting the namespaces, and
// ending what runs in them, does.
package path

import (
	"context"
	"fmt"
	"iter"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/verr"
)

// Driver is one kind of path.
type Driver struct {
	Name    string
	Summary string // one line for --help
	Example string // the system that wires it so
	Options []Option
	// Resolve refuses options that do not go together, and fills in those that
	// depend on the machine; nil: all go together.
	Resolve func(Values) error
	// KernelVXLAN: it is made of the kernel's vxlan devices, in the machines' own
	// namespaces, by the options vni, port and tunnels; see [Allocate].
	KernelVXLAN bool
	// OwnPort is the UDP port that its devices in the machines' own namespaces
	// have, which is then nobody else's; option port says another one. 0: none.
	OwnPort int
	// OneHost: it is built by one process for all machines, so that they must be
	// namespaces of one host.
	OneHost bool
	// OwnCard: it asks for a network card of its own on each machine, by [Env.Cards], for its
	// pods or its switch are in the wire's own network, with MACs of their own.
	OwnCard bool
	// InVMs: the ends are in virtual machines, where programs of this machine
	// cannot run.
	InVMs bool
	// CheckHosts refuses a number of machines that the path cannot be on; nil: it can
	// be on any. Errors are for a user.
	CheckHosts func(a Arm, hosts int) error
	// Overhead is what it adds to each packet on the wire, bytes; nil: nothing.
	Overhead func(Values) int
	// MTU is the most that the pods can have over a wire with the given one,
	// bytes; nil: the wire's less the overhead.
	MTU func(wire int, v Values) int
	// MinMTU is the least that the pods can have, bytes; nil: what IPv4 needs.
	MinMTU func(Values) int
	// Needs is what it needs beyond what the lab itself does; nil: nothing.
	Needs func(Values) []feature.Need
	// Check looks whether what the path is to use of others is there; nil: it
	// uses nothing. Errors are for a user.
	Check func(Values) error
	// Up builds the path and gives its ends.
	Up func(ctx context.Context, s *Site) (Ends, error)
}

// Ends are the ends of a path: by machine, in the order of the site's, and
// then by pod. The k-th pods of all machines talk to each other.
type Ends [][]host.Endpoint

// Needs is what the path needs with its options, beyond what the lab does.
func (a Arm) Needs() []feature.Need {
	if a.Driver.Needs == nil {
		return nil
	}
	return a.Driver.Needs(a.Options)
}

// Check says whether the machine has what the path needs: nil, or an error for
// a user that says what is missing and how to get it.
func (a Arm) Check() error {
	if err := feature.Require("cannot raise path "+a.Name, a.Needs()...); err != nil {
		return err
	}
	if a.Driver.Check != nil {
		return a.Driver.Check(a.Options)
	}
	return nil
}

// Supported tells whether the machine has what the path needs: no if one thing is
// lacking, else unknown if one could not be told.
func (a Arm) Supported() feature.Answer {
	answer := feature.Yes
	for _, n := range a.Needs() {
		switch found, _ := n.Ask(); found {
		case feature.No:
			return feature.No
		case feature.Unknown:
			answer = feature.Unknown
		}
	}
	return answer
}

// Table lists the drivers in the order in which help shows them.
var Table = []*Driver{
	&hostDriver, &routed, &routedFast, &overBGP, &ipip, &ipipFast, &vxlan, &vxlanFast, &vxlanDev, &geneve, &geneveFast, &gre,
	&vlan, &qinq, &macvlan, &ipvlan, &netkit, &netkitFast,
	&ovsVXLAN, &ovsGeneve, &ovsVLAN, &ovsQinQ, &ovnOverlay, &ovnUnderlay,
	&vmVLAN, &vmVXLAN, &attach,
}

// Site is where a driver builds.
type Site struct {
	Arm      string // name of the path in this lab
	Index    int    // of the arm, from 0: addresses derive from it
	Nth      int    // among the arms of this driver, from 0: names of devices derive from it
	Options  Values
	VNI      int // of the first tunnel, of drivers with KernelVXLAN
	Port     int // UDP, of drivers with OwnPort
	MTU      int // of the pods, bytes
	Machines []Machine
	OUI      [2]byte // the first bytes of all MACs that the driver gives
	Env
}

// Machine is one of the machines, as a driver sees it.
type Machine struct {
	Name string
	In   *netcfg.Namespace // nil: it is another host, which builds its part itself
	Wire string            // name of the device that leads to the other machines
	MAC  net.HardwareAddr  // of that device
	Addr netip.Addr        // on the wire
	MTU  int               // of the wire, bytes
}

// otherMachines goes through the machines but the i-th, with their indices.
func (s *Site) otherMachines(i int) iter.Seq2[int, Machine] {
	return func(yield func(int, Machine) bool) {
		for j, m := range s.Machines {
			if j != i && !yield(j, m) {
				return
			}
		}
	}
}

// Env is what the lab gives a driver to build on. Machines are given by
// their index; what is made belongs to the arm and goes with the lab.
type Env struct {
	// Pod makes the n-th pod of this arm on a machine.
	Pod func(machine, n int) (*netcfg.Namespace, error)
	// SwitchNetns makes a further namespace of a machine, for a switch that cannot
	// share the machine's own.
	SwitchNetns func(machine int, name string) (*netcfg.Namespace, error)
	// Cards gives every machine one more network card, with the wire's offloads
	// and MTU, and joins them as the wire joins the machines. There is one end
	// for each machine, in order; that of another host has no namespace. senders
	// are the MACs that a machine sends from by its card; nil: the card's alone.
	Cards func(ends []netcfg.VethEnd, senders func(machine int) []net.HardwareAddr) error
	// Folder makes the arm's private folder on a machine, for sockets and files
	// of its daemons, and gives its path.
	Folder func(machine int) (string, error)
	// HoldNetns keeps a namespace that is not the lab's for as long as the lab is up,
	// and gives the path by which it is found from there, whatever becomes of
	// the old one.
	HoldNetns func(machine int, path string) (string, error)
	// Start starts a daemon of the arm on a machine. Of the command, Detach is
	// filled in.
	Start func(machine int, in *netcfg.Namespace, c netcfg.Command) (*netcfg.Child, error)
	// Pins notes where the fast path of a machine keeps its tables.
	Pins func(machine int, folder string)
	// Report notes the version of a project whose programs carry the path:
	// Report("openvswitch", "3.1.0").
	Report func(component, version string)
	// Program starts this very program; its arguments follow.
	Program []string
	// Settings are those that every namespace of the lab begins with, and that a
	// virtual machine needs to have too.
	Settings []netcfg.Sysctl
	// Keep: the lab stays when the process that raises it ends.
	Keep bool
}

// Lookup finds a driver by name. An unknown name is an error for a user.
func Lookup(name string) (*Driver, error) {
	i := slices.IndexFunc(Table, func(d *Driver) bool { return d.Name == name })
	if i < 0 {
		return nil, verr.New(verr.Usage, fmt.Sprintf("unknown path %q", name),
			"there is no driver of that name", "choose from: "+strings.Join(Names(), ", "))
	}
	return Table[i], nil
}

// Names lists the names of all drivers.
func Names() []string {
	names := make([]string, len(Table))
	for i, d := range Table {
		names[i] = d.Name
	}
	return names
}
