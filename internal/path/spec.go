package path

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/verr"
)

// Arm is one path of a lab, to be built.
type Arm struct {
	Name    string
	Index   int // among all arms, from 0
	Nth     int // among those of the same driver, accelerated or not, from 0
	Driver  *Driver
	Options Values
	VNI     int // of the first tunnel, of drivers with KernelVXLAN; given by [Allocate]
	Port    int // UDP, of drivers with OwnPort; given by [Allocate]
}

// Arms reads a list of paths as a user gives them, NAME or NAME:KEY=VALUE,...
// An arm is called as its driver; one whose driver comes again gets a number:
// routed, routed.2. names, if there are any, say other names, one a path; an
// empty one leaves it as it is. Errors are for a user.
func Arms(paths, names []string) ([]Arm, error) {
	nth, named, taken := map[string]int{}, map[string]int{}, map[string]bool{}
	arms := make([]Arm, 0, len(paths))
	for i, text := range paths {
		d, options, err := ParseSpec(text)
		if err != nil {
			return nil, err
		}
		family, _, _ := strings.Cut(d.Name, "+") // accelerated or not, the devices are called alike
		arm := Arm{Name: d.Name, Index: i, Nth: nth[family], Driver: d, Options: options}
		nth[family]++
		if named[d.Name]++; named[d.Name] > 1 {
			arm.Name = fmt.Sprintf("%s.%d", d.Name, named[d.Name])
		}
		if named := options[nameOption]; named != "" {
			arm.Name = named
		}
		given := i < len(names) && names[i] != ""
		if given {
			arm.Name = names[i]
		}
		if taken[arm.Name] || given && !validName(arm.Name) {
			return nil, verr.New(verr.Usage, fmt.Sprintf("cannot name a path %q", arm.Name),
				"each path needs a unique name, which becomes part of the name of a namespace",
				fmt.Sprintf("use at most %d of a-z, 0-9 and -, beginning with a letter or digit", MaxName))
		}
		taken[arm.Name] = true
		arms = append(arms, arm)
	}
	return arms, nil
}

// MaxName is the greatest length of an arm's name: with it, the path of a
// socket in the arm's folder stays below the 108 bytes that the kernel takes.
const MaxName = 24

// validName tells whether a user may give an arm this name. A dot would make it
// possible to give that of another arm's switch, x.ovs, or second pod, x.p2.
func validName(name string) bool {
	return name != "" && len(name) <= MaxName && name[0] != '-' &&
		strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// ParseSpec reads NAME or NAME:KEY=VALUE,... and gives the driver and all of
// its options, those that are not named with their defaults. Errors are for a
// user.
func ParseSpec(text string) (*Driver, Values, error) {
	name, list, more := strings.Cut(text, ":")
	d, err := Lookup(name)
	if err != nil {
		return nil, nil, err
	}
	given := Values{}
	if more {
		for _, part := range strings.Split(list, ",") {
			if err := d.take(part, given); err != nil {
				return nil, nil, d.refuse(text, err.Error())
			}
		}
	}
	for _, o := range d.Options {
		if _, ok := given[o.Name]; !ok {
			given[o.Name] = o.Default
		}
	}
	if d.Resolve != nil {
		if err := d.Resolve(given); err != nil {
			return nil, nil, d.refuse(text, err.Error())
		}
	}
	return d, given, nil
}

// take reads one KEY=VALUE.
func (d *Driver) take(part string, given Values) error {
	key, value, ok := strings.Cut(part, "=")
	key, value = strings.TrimSpace(key), strings.TrimSpace(value)
	switch {
	case !ok && key == "":
		return errors.New("an option is empty")
	case !ok && len(given) == 0 && d.hasOption(nameOption):
		key, value = nameOption, key
	case !ok:
		return fmt.Errorf("%q has no value", key)
	}
	if _, twice := given[key]; twice {
		return fmt.Errorf("%q is given twice", key)
	}
	i := slices.IndexFunc(d.Options, func(o Option) bool { return o.Name == key })
	if i < 0 {
		return fmt.Errorf("%s has no option %q", d.Name, key)
	}
	value, err := d.Options[i].read(value)
	given[key] = value
	return err
}

func (d *Driver) hasOption(name string) bool {
	return slices.ContainsFunc(d.Options, func(o Option) bool { return o.Name == name })
}

// refuse is the error for a user who asked for options that cannot be.
func (d *Driver) refuse(text, why string) error {
	do := d.Name + " takes no options"
	if len(d.Options) > 0 {
		var can []string
		for _, o := range d.Options {
			can = append(can, o.Name+"="+o.Value)
		}
		do = "give any of " + strings.Join(can, ", ")
	}
	return verr.New(verr.Usage, fmt.Sprintf("cannot read path %q", text), why, do)
}

// GivenOptions gives the options that differ from the defaults, in the driver's order,
// as ParseSpec takes them: "datapath=netdev,tunnels=5".
func (a Arm) GivenOptions() string {
	var said []string
	for _, o := range a.Driver.Options {
		if v := a.Options[o.Name]; v != o.Default {
			said = append(said, o.Name+"="+v)
		}
	}
	return strings.Join(said, ",")
}

// Spec is the path as ParseSpec takes it, without the defaults.
func (a Arm) Spec() string {
	if said := a.GivenOptions(); said != "" {
		return a.Driver.Name + ":" + said
	}
	return a.Driver.Name
}

// Overhead is what the path adds to each packet on the wire, bytes.
func (a Arm) Overhead() int {
	if a.Driver.Overhead == nil {
		return 0
	}
	return a.Driver.Overhead(a.Options)
}

// MTU gives the MTU of the pods over a wire with the given one, bytes. Error,
// for a user: the wire carries less than the path was asked to, or either is
// less than the path can do with.
func (a Arm) MTU(wire int) (int, error) {
	most, least, asked := a.largestMTU(wire), minMTU, a.Options.Int(mtuName)
	if a.Driver.MinMTU != nil {
		least = a.Driver.MinMTU(a.Options)
	}
	switch {
	case most < least:
		return 0, verr.New(verr.Usage, fmt.Sprintf("cannot raise path %s on a wire with MTU %d", a.Name, wire),
			fmt.Sprintf("it leaves %d bytes for the pods, and %s", most, needs(least)), a.adviseMTU("", wire, most, least))
	case asked > most:
		return 0, verr.New(verr.Usage, fmt.Sprintf("cannot raise path %s with mtu=%d", a.Name, asked),
			fmt.Sprintf("the wire's MTU of %d leaves %d bytes for the pods", wire, most),
			a.adviseMTU(fmt.Sprintf("give mtu=%d or less", most), wire, most, asked))
	case asked > 0 && asked < least:
		return 0, verr.New(verr.Usage, fmt.Sprintf("cannot raise path %s with mtu=%d", a.Name, asked),
			needs(least), fmt.Sprintf("give mtu=%d or more", least))
	case asked > 0:
		return asked, nil
	}
	return most, nil
}

func needs(least int) string {
	if least == minMTU {
		return fmt.Sprintf("IPv4 needs %d", least)
	}
	return fmt.Sprintf("with such options the path needs %d", least)
}

// largestMTU is the greatest MTU that the pods can have.
func (a Arm) largestMTU(wire int) int {
	if a.Driver.MTU != nil {
		return a.Driver.MTU(wire, a.Options)
	}
	return wire - a.Overhead()
}

// adviseMTU tells what to do so that the pods can have the MTU want, where the wire
// leaves them most: besides what else can be done, to take a wider wire, if
// there is one that helps.
func (a Arm) adviseMTU(also string, wire, most, want int) string {
	wider := wire + want - most
	switch {
	case wider > maxMTU || a.largestMTU(wider) < want:
		return strings.TrimPrefix(also+"; the path carries no more over any wire", "; ")
	case also == "":
		return fmt.Sprintf("give --wire mtu=%d or more", wider)
	}
	return fmt.Sprintf("%s, or --wire mtu=%d", also, wider)
}
