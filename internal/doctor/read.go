package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/venturi-net/venturi/internal/nft"

	"golang.org/x/sync/errgroup"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/verr"
)

// Options say what to look at.
type Options struct {
	Netns    []string                         // files of namespaces; none: all that can be seen
	Devices  []string                         // names; none: all
	Peers    []netip.Addr                     // the ways to them are looked at too
	Interval time.Duration                    // between two readings of counters; 0: there is one reading only
	Say      func(format string, args ...any) // tells of steps that take long; nil: nobody
}

// settings are the sysctls that rules judge by; those of the machine as a whole
// are read in its first namespace.
var settings = []string{
	"net.ipv4.ip_forward",
	"net.ipv4.tcp_congestion_control",
	"net.ipv4.tcp_allowed_congestion_control",
	"net.core.netdev_max_backlog",
	"net.core.netdev_budget",
	"net.core.netdev_budget_usecs",
	"net.core.bpf_jit_enable",
	"net.bridge.bridge-nf-call-iptables",
	"net.netfilter.nf_conntrack_count",
	"net.netfilter.nf_conntrack_max",
}

// tuners are programs that turn the same knobs, by the names of their processes.
var tuners = []string{"irqbalance", "tuned", "bpftune", "openshift-tuned", "saptune", "keentuned", "atuned", "powertop"}

// Read reads the machine. All namespaces are read, also those that are not asked
// for: paths lead through them. Error: a namespace or device that is named is not
// there, or ctx ended.
func Read(ctx context.Context, o Options) (*View, error) {
	r := host.Reader{}
	v := &View{Hypervisor: r.Hypervisor(), Governors: r.Governors(), Modules: r.Modules(), Owners: r.Running(tuners...), IRQs: map[string][]host.IRQ{}}
	found, hidden, err := r.FindNetns()
	if err != nil {
		return nil, verr.Wrap(verr.Failed, "cannot look at the machine", err, "is /proc mounted?")
	}
	if hidden > 0 {
		v.addUnread("the namespaces of other users' processes", many(hidden, "process")+" may not be looked at")
	}
	if pid := v.Owners["irqbalance"]; pid > 0 {
		v.Balancer = strings.Join(r.Command(pid), " ") + "\n" + r.Text("etc/default/irqbalance") + "\n" + r.Text("etc/sysconfig/irqbalance")
	}
	if err := v.readNetns(ctx, r, found); err != nil {
		return nil, err
	}
	if err := v.check(o); err != nil {
		return nil, err
	}
	v.readLinks(o)
	v.First = v.count(r)
	v.Second = v.First
	v.CPUs = len(v.First.CPUs)
	if o.Interval <= 0 {
		return v, nil
	}
	if o.Say != nil {
		o.Say("reading counters twice, %s apart", o.Interval)
	}
	if host.Sleep(ctx, o.Interval) != nil {
		return nil, ctx.Err()
	}
	v.Second = v.count(r)
	return v, nil
}

func (v *View) addUnread(what, why string) { v.Unread = append(v.Unread, Unread{what, why}) }

func (s *Netns) addUnread(what, why string) { s.unread = append(s.unread, Unread{what, why}) }

// parallelReads is how many namespaces are read at the same time: most of it is waiting.
const parallelReads = 16

// readNetns reads every namespace that can be entered.
func (v *View) readNetns(ctx context.Context, r host.Reader, found []host.Netns) error {
	home, _ := host.ID(host.HomeNetns)
	spaces, failed := make([]*Netns, len(found)), make([]error, len(found))
	var work errgroup.Group
	work.SetLimit(parallelReads)
	for i, f := range found {
		spaces[i] = &Netns{Netns: f, Tracked: -1, Home: f.ID == home}
		work.Go(func() error {
			if failed[i] = ctx.Err(); failed[i] == nil {
				failed[i] = host.Do(f.Path, func() error { return spaces[i].read(r) })
			}
			return nil
		})
	}
	_ = work.Wait() // each has its own error
	if ctx.Err() != nil {
		return ctx.Err()
	}
	refused := 0
	for i, s := range spaces {
		switch err := failed[i]; {
		case err == nil:
			v.Netns = append(v.Netns, s)
			v.Unread = append(v.Unread, s.unread...)
		case errors.Is(err, fs.ErrPermission):
			refused++
		case errors.Is(err, fs.ErrNotExist): // it went away meanwhile
		default:
			v.addUnread(s.name(), err.Error())
		}
	}
	if refused > 0 {
		v.addUnread(many(refused, "other network namespace"), "they may not be entered")
	}
	if len(v.Netns) == 0 {
		return verr.New(verr.Failed, "cannot look at the machine", "no network namespace could be read: "+v.lastUnreadReason(), "run it as root")
	}
	if v.home() == nil {
		v.Netns[0].Home = true // the machine's own cannot be seen: this is as near as it gets
	}
	v.Sysctls = v.home().Sysctls
	for _, d := range v.home().Devices {
		if d.Card {
			v.IRQs[d.Name], _ = r.IRQs("", d.Name) // a card may have none
		}
	}
	return nil
}

// lastUnreadReason is the last reason why something could not be read.
func (v *View) lastUnreadReason() string {
	if len(v.Unread) == 0 {
		return "they went away"
	}
	return v.Unread[len(v.Unread)-1].Reason
}

// read fills in what is read inside of a namespace.
func (s *Netns) read(r host.Reader) error {
	s.Sysctls = map[string]string{}
	for _, name := range settings {
		if value, err := r.Sysctl(name); err == nil {
			s.Sysctls[name] = value
		}
	}
	list := func(sys string) (err error) {
		s.Devices, err = host.NetDevices(sys)
		return err
	}
	err := host.Sysfs(list)
	if err != nil {
		return err
	}
	s.Carrier = s.carriers()
	if s.Chains, err = nft.SummarizeRuleset(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.addUnread("the packet filter of "+s.name(), short(err))
	}
	if s.Legacy, err = nft.LegacyTables(); err != nil {
		s.addUnread("legacy iptables of "+s.name(), short(err))
	}
	s.readTracked()
	return nil
}

// maxTracked bounds how large a table of connections is read for one number.
const maxTracked = 100_000

func (s *Netns) readTracked() {
	ports := map[int]bool{}
	for _, d := range s.Devices {
		if d.Tunnel != nil && d.Tunnel.Port > 0 && d.Up {
			ports[d.Tunnel.Port] = true
		}
	}
	n := number(s.Sysctls, "net.netfilter.nf_conntrack_count")
	if len(ports) == 0 || n <= 0 {
		return
	}
	if n > maxTracked {
		s.addUnread("which connections "+s.name()+" tracks", fmt.Sprintf("there are %d, more than are read for this", n))
		return
	}
	tracked, err := host.TrackedUDP(ports)
	if err != nil {
		s.addUnread("which connections "+s.name()+" tracks", short(err))
		return
	}
	s.Tracked = tracked
}

// short is the reason in an error of the kernel.
func short(err error) string {
	if errors.Is(err, fs.ErrPermission) {
		return "not permitted: run it as root"
	}
	return err.Error()
}

// Addresses that only the default routes lead to.
var (
	defaultProbe     = netip.MustParseAddr("192.0.2.1")
	defaultProbeIPv6 = netip.MustParseAddr("2001:db8::1")
)

// carriers finds the devices that tunnels send by, in the calling thread's namespace.
func (s *Netns) carriers() map[int]int {
	found := map[int]int{}
	for i := range s.Devices {
		d := &s.Devices[i]
		if d.Tunnel == nil || !d.Up {
			continue
		}
		below := s.deviceByName(egressDevice(d.Tunnel))
		if d.Tunnel.Device != 0 {
			below = s.device(d.Tunnel.Device)
		}
		if below != nil && below != d {
			found[d.Index] = below.Index
		}
	}
	return found
}

// egressDevice names the device that a tunnel sends by: as the route to its other end
// says, or else its own address, or else the default route; empty: none tells.
func egressDevice(t *host.Tunnel) string {
	if t.Remote.IsValid() && !t.Remote.IsUnspecified() && !t.Remote.IsMulticast() {
		route, err := host.RouteTo(t.Remote, netip.Addr{})
		if err != nil || route.Local {
			return ""
		}
		return route.Device
	}
	probe := defaultProbe
	if t.Remote.Is6() || t.Local.Is6() {
		probe = defaultProbeIPv6
	}
	if t.Local.IsValid() && !t.Local.IsUnspecified() {
		all, err := host.Addresses()
		for _, a := range all {
			if err == nil && a.Addr == t.Local {
				return a.Device
			}
		}
	}
	route, err := host.RouteTo(probe, netip.Addr{})
	if err != nil {
		return ""
	}
	return route.Device
}

// check refuses names of namespaces and devices that are not there.
func (v *View) check(o Options) error {
	for _, path := range o.Netns {
		id, err := host.ID(path)
		if err != nil {
			return verr.Wrap(verr.Usage, "cannot look at network namespace "+path, err, "see which there are with `ip netns ls`, or give a process in it")
		}
		if v.findNetns(id) == nil {
			return verr.New(verr.Permission, "cannot look at network namespace "+path, "it may not be entered", "run it as root")
		}
	}
	for _, name := range o.Devices {
		if !v.anyDevice(o, name) {
			return verr.New(verr.Usage, "cannot look at device "+name, "no namespace that is looked at has one of that name", "name its namespace with --netns, or see which devices there are with `ip link`")
		}
	}
	return nil
}

func (v *View) anyDevice(o Options, name string) bool {
	for _, s := range v.Netns {
		for i := range s.Devices {
			if s.Devices[i].Name == name && o.wanted(location{s, &s.Devices[i]}) {
				return true
			}
		}
	}
	return false
}

// readLinks reads what joins namespaces, and the ways to peers.
func (v *View) readLinks(o Options) {
	files := map[string]host.NamespaceID{}
	var order []string
	for _, s := range v.Netns {
		path := s.Path
		if path == "" {
			path = "/proc/self/ns/net"
		}
		files[path] = s.ID
		order = append(order, path)
	}
	for _, s := range v.Netns {
		wanted := map[int]bool{}
		for _, d := range s.Devices {
			if d.LowerNSID >= 0 {
				wanted[d.LowerNSID] = true
			}
		}
		_ = host.Do(s.Path, func() error { // one that went away leads nowhere
			if len(wanted) > 0 {
				s.ByNSID = map[int]host.NamespaceID{}
				for n, path := range host.NetnsByNSID(wanted, order) {
					s.ByNSID[n] = files[path]
				}
			}
			if o.wanted(location{s, nil}) && (len(o.Netns) > 0 || s == v.Netns[0]) {
				v.addRoutes(s, o.Peers)
			}
			return nil
		})
	}
}

func (v *View) addRoutes(s *Netns, peers []netip.Addr) {
	for _, peer := range peers {
		route, err := host.RouteTo(peer, netip.Addr{})
		if err != nil {
			v.addUnread(fmt.Sprintf("the route from %s to %s", s.name(), peer), err.Error())
			continue
		}
		w := PeerRoute{Netns: s, Peer: peer.String(), ResolvedRoute: route}
		if d := s.deviceByName(route.Device); d != nil {
			w.DeviceMTU = d.MTU
		}
		if peer.Is4() && !route.Local {
			if w.Probe, err = host.ProbePath(peer, route.MTU); err != nil {
				v.addUnread(fmt.Sprintf("the path from %s to %s", s.name(), peer), err.Error())
			}
		}
		v.Routes = append(v.Routes, w)
	}
}

// wanted tells whether a finding of a place was asked for. What is of the machine
// as a whole always is.
func (o Options) wanted(w location) bool {
	if w.netns == nil {
		return true
	}
	is := func(path string) bool {
		id, err := host.ID(path)
		return err == nil && id == w.netns.ID
	}
	if len(o.Netns) > 0 && !slices.ContainsFunc(o.Netns, is) {
		return false
	}
	return len(o.Devices) == 0 || w.device == nil || slices.Contains(o.Devices, w.device.Name)
}
