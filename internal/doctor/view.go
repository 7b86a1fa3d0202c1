package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/nft"
)

// View is what was read of a machine.
type View struct {
	CPUs       int
	Hypervisor string // empty: bare metal
	Governors  map[string]int
	Modules    map[string]bool // loaded; true: not built with the kernel
	Owners     map[string]int  // programs that tune the machine too, and their pids
	Balancer   string          // what irqbalance was told, by its command line and its file
	Sysctls    map[string]string
	Netns      []*Netns              // the first is that of the process
	IRQs       map[string][]host.IRQ // by the device, of the first namespace
	Routes     []PeerRoute
	First      Counters
	Second     Counters // later than First, unless only one reading was asked for
	Unread     []Unread
}

// Netns is a network namespace.
type Netns struct {
	host.Netns
	Devices []host.NetDevice
	Sysctls map[string]string
	Chains  []nft.ChainSummary
	Legacy  []nft.LegacyTable
	ByNSID  map[int]host.NamespaceID // other namespaces, by their numbers in this one
	Tracked int                      // connections to UDP ports of tunnels; -1: not counted
	Carrier map[int]int              // by which device the packets of a tunnel leave; both are indexes
	Home    bool                     // it is the one of the machine's first process
	unread  []Unread
}

// PeerRoute is how packets leave a namespace for a peer that the user named.
type PeerRoute struct {
	Netns *Netns
	Peer  string
	host.ResolvedRoute
	DeviceMTU int
	Probe     host.PathProbe // what becomes of packets of the route's MTU
}

// Unread is what could not be read, and why.
type Unread struct{ Subject, Reason string }

// findNetns finds a namespace; nil: it was not seen.
func (v *View) findNetns(id host.NamespaceID) *Netns {
	for _, s := range v.Netns {
		if s.ID == id {
			return s
		}
	}
	return nil
}

// home is the namespace of the machine itself; nil: it was not seen.
func (v *View) home() *Netns {
	for _, s := range v.Netns {
		if s.Home {
			return s
		}
	}
	return nil
}

// device finds a device by its index; nil: there is none.
func (s *Netns) device(index int) *host.NetDevice {
	for i := range s.Devices {
		if index != 0 && s.Devices[i].Index == index {
			return &s.Devices[i]
		}
	}
	return nil
}

// deviceByName finds a device by its name; nil: there is none.
func (s *Netns) deviceByName(name string) *host.NetDevice {
	for i := range s.Devices {
		if s.Devices[i].Name == name {
			return &s.Devices[i]
		}
	}
	return nil
}

// lower gives the device below one, or the other end of its pair, with its
// namespace; nil: there is none, or it is in a namespace that was not seen.
func (v *View) lower(s *Netns, d *host.NetDevice) (*Netns, *host.NetDevice) {
	if d.LowerNSID < 0 {
		return s, s.device(d.Lower)
	}
	id, known := s.ByNSID[d.LowerNSID]
	if !known {
		return nil, nil
	}
	there := v.findNetns(id)
	if there == nil {
		return nil, nil
	}
	return there, there.device(d.Lower)
}

// lowerDevices gives a device, and those of its namespace that it stands on, down to
// the cards: the ports of a bond, bridge or switch, and what a VLAN is on.
func (s *Netns) lowerDevices(d *host.NetDevice) []*host.NetDevice {
	found := []*host.NetDevice{d}
	for i := 0; i < len(found); i++ {
		for k := range s.Devices {
			if lower := &s.Devices[k]; s.standsOn(found[i], lower) && !slices.Contains(found, lower) {
				found = append(found, lower)
			}
		}
	}
	return found
}

// standsOn tells whether packets that a device sends may leave by another one.
func (s *Netns) standsOn(d, lower *host.NetDevice) bool {
	switch d.Kind {
	case "vlan", "macvlan":
		return d.LowerNSID < 0 && d.Lower == lower.Index
	case "openvswitch": // ports have one device of that kind for a master, whichever of the bridges they are of
		m := s.device(lower.Master)
		return m != nil && m.Kind == "openvswitch"
	}
	return lower.Master == d.Index
}

// peer gives the other end of a pair; nil: the device is none of a pair.
func (v *View) peer(s *Netns, d *host.NetDevice) (*Netns, *host.NetDevice) {
	if d.Kind != "veth" && d.Kind != "netkit" {
		return nil, nil
	}
	there, p := v.lower(s, d)
	if p == nil || p.Kind != d.Kind || p.Lower != d.Index {
		return nil, nil // it is in a namespace that was not seen
	}
	return there, p
}

// carrier gives the device that a tunnel's packets leave by; nil when that is not
// known.
func (s *Netns) carrier(d *host.NetDevice) *host.NetDevice { return s.device(s.Carrier[d.Index]) }

// tunnelCarriers lists the devices that carry tunnels, each with the first tunnel on it
// that is wrapped in UDP, for which cards need settings; if there is none, the first.
func (s *Netns) tunnelCarriers() map[int]*host.NetDevice {
	found := map[int]*host.NetDevice{}
	for i := range s.Devices {
		d := &s.Devices[i]
		if d.Tunnel == nil || !d.Up {
			continue
		}
		c := s.carrier(d)
		if c == nil {
			continue
		}
		if known := found[c.Index]; known == nil || known.Tunnel.Port == 0 && d.Tunnel.Port != 0 {
			found[c.Index] = d
		}
	}
	return found
}

// tunnelCards adds to these the cards below them: where a tunnel sends by a bond, VLAN,
// bridge or switch, those do the work.
func (s *Netns) tunnelCards() map[int]*host.NetDevice {
	found := s.tunnelCarriers()
	for _, index := range slices.Sorted(maps.Keys(found)) {
		for _, d := range s.lowerDevices(s.device(index)) {
			if d.Card && d.Up && found[d.Index] == nil {
				found[d.Index] = found[index]
			}
		}
	}
	return found
}

// forwards tells whether a namespace hands packets on between its devices.
func (s *Netns) forwards() bool { return s.Sysctls["net.ipv4.ip_forward"] == "1" }

// name is what the namespace is called in a sentence.
func (s *Netns) name() string {
	switch {
	case s.Name == "" && s.Home:
		return "the machine's own namespace"
	case s.Name == "":
		return "this namespace"
	}
	return s.Name
}

// argument is how --netns names the namespace; empty: it is that of the process.
func (s *Netns) argument() string {
	if pid, isPid := strings.CutPrefix(s.Name, "pid "); isPid {
		pid, _, _ = strings.Cut(pid, " ")
		return pid
	}
	return s.Name
}

// features is evidence of offloads.
func features(d *host.NetDevice, names ...string) Evidence {
	var values []string
	for _, n := range names {
		if f, known := d.Features[n]; known {
			values = append(values, n+": "+host.OnOff(f.On))
		}
	}
	return Evidence{"ethtool features of " + d.Name, strings.Join(values, ", ")}
}

// disabledFeatures gives those of some offloads that somebody switched off, though the device
// could have them. What is off for want of another one is not lost by itself.
func disabledFeatures(d *host.NetDevice, names ...string) (off []string) {
	for _, n := range names {
		if f, known := d.Features[n]; known && f.Settable && !f.Wanted && !f.On {
			off = append(off, n)
		}
	}
	return off
}

// number reads a sysctl that is one; -1: it is not there.
func number(sysctls map[string]string, name string) int {
	n, err := strconv.Atoi(sysctls[name])
	if err != nil {
		return -1
	}
	return n
}

func sysctl(name string, sysctls map[string]string) Evidence {
	return Evidence{"sysctl " + name, sysctls[name]}
}

func counted(read, what string, n uint64, seconds float64) Evidence {
	return Evidence{read, fmt.Sprintf("%s grew by %d in %.1f s", what, n, seconds)}
}
