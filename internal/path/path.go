// Package path builds what lies between two ends of traffic: one file a
// driver, one line in [Table].
//
// A driver gets two machines that a wire joins and lays its own devices, pods
// and routes beside those of the other paths; all paths of a lab are up at
// once. It writes only into the namespaces that it is handed or asks for, and
// takes nothing down: deleting the namespaces does.
package path

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/change"
	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/machine"
	"github.com/venturi-net/venturi/internal/verr"
)

// Driver is one kind of path.
type Driver struct {
	Name     string
	Summary  string           // one line for --help
	Like     string           // the system that wires it so
	Overhead int              // bytes that it adds to each packet on the wire
	Needs    []*feature.Probe // beyond what the lab itself needs
	// Up builds the path and gives its ends, the first on the first machine.
	Up func(ctx context.Context, s *Site) (from, to machine.Endpoint, err error)
}

// Check says whether the kernel has what the path needs: nil, or an error for
// a user that says what is missing and how to get it.
func (d *Driver) Check() error {
	return feature.Require("cannot raise path "+d.Name, d.Needs...)
}

// Table lists the drivers in the order in which help shows them.
var Table = []*Driver{&host, &routed, &vxlan}

// Site is where a driver builds.
type Site struct {
	Arm      string // name of the path in this lab
	Index    int    // of the arm, from 0: addresses derive from it
	Nth      int    // among the arms of this driver, from 0: names of devices derive from it
	Machines [2]Machine
	// Pod makes the pod of this arm on one of the machines.
	Pod func(machine int) (*change.Namespace, error)
}

// Machine is one of the two machines, as a driver sees it.
type Machine struct {
	Name string
	In   *change.Namespace
	Wire string     // name of the device that leads to the other machine
	Addr netip.Addr // on the wire
	MTU  int        // of the wire, bytes
}

// Arm is one path of a lab, to be built.
type Arm struct {
	Name   string
	Index  int // among all arms, from 0
	Nth    int // among those of the same driver, from 0
	Driver *Driver
}

// MaxArms is how many paths one lab can have: each takes two of the 256 pod
// blocks below 10.244.0.0/16.
const MaxArms = 128

// Arms reads a list of path names. A name that comes again gets a number:
// routed, routed.2. An unknown name is an error for a user.
func Arms(names []string) ([]Arm, error) {
	if len(names) > MaxArms {
		return nil, verr.New(verr.Usage, fmt.Sprintf("cannot raise %d paths", len(names)),
			fmt.Sprintf("a lab has room for %d", MaxArms), "ask for fewer")
	}
	seen := map[string]int{}
	arms := make([]Arm, 0, len(names))
	for i, name := range names {
		d, err := Lookup(name)
		if err != nil {
			return nil, err
		}
		arm := Arm{Name: name, Index: i, Nth: seen[name], Driver: d}
		if arm.Nth > 0 {
			arm.Name = fmt.Sprintf("%s.%d", name, arm.Nth+1)
		}
		seen[name]++
		arms = append(arms, arm)
	}
	return arms, nil
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
