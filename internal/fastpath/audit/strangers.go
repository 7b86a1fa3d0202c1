package audit

import (
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Strangers are addresses and devices that rules ask for where tunnel packets are, and that packets of tunnels are taken
// not to have. So it is with kube-router, whose rules for the host's own packets ask for the addresses of its pods.
// A tunnel whose packets have one of them must not be carried.
type Strangers struct {
	Addresses []netip.Addr // in order
	Devices   []string     // a name that ends in * is a prefix
}

// Match says which of them the packets of a tunnel have; "": none. An address that is not valid may be any.
func (o Strangers) Match(device string, addresses ...netip.Addr) string {
	for _, a := range addresses {
		if !a.IsValid() && len(o.Addresses) > 0 {
			a = o.Addresses[0]
		}
		if _, found := slices.BinarySearchFunc(o.Addresses, a, netip.Addr.Compare); found {
			return "the address " + a.String()
		}
	}
	for _, pattern := range o.Devices {
		if matchesDevice(pattern, device) {
			return "the device " + pattern
		}
	}
	return ""
}

// Equal reports whether these are the same.
func (o Strangers) Equal(as Strangers) bool {
	return slices.Equal(o.Addresses, as.Addresses) && slices.Equal(o.Devices, as.Devices)
}

// matchesDevice reports whether a device has a name, or one with a prefix that ends in *.
func matchesDevice(pattern, device string) bool {
	prefix, all := strings.CutSuffix(pattern, "*")
	return pattern == device || all && strings.HasPrefix(device, prefix)
}

// strangerSet collects them.
type strangerSet struct {
	addresses map[netip.Addr]bool
	devices   map[string]bool
}

func newStrangerSet() *strangerSet { return &strangerSet{map[netip.Addr]bool{}, map[string]bool{}} }

func (s *strangerSet) add(o Strangers) {
	for _, a := range o.Addresses {
		s.addresses[a] = true
	}
	for _, d := range o.Devices {
		s.devices[d] = true
	}
}

func (s *strangerSet) all() (o Strangers) {
	for a := range s.addresses {
		o.Addresses = append(o.Addresses, a)
	}
	for d := range s.devices {
		o.Devices = append(o.Devices, d)
	}
	slices.SortFunc(o.Addresses, netip.Addr.Compare)
	slices.Sort(o.Devices)
	return o
}

// asksAddress reports whether a rule loads the source or the destination of a tunnel's packet, which may be
// another one's, see [Strangers].
func (e *exprEvaluator) asksAddress(at, size int) bool {
	h := e.Family.header()
	return e.mayTake && size == h.length/2 && (at == h.addresses || at == h.addresses+size)
}

// compareAddress decides which of these packets a comparison matches.
func (e *exprEvaluator) compareAddress(value []byte, equal bool) {
	a, ok := netip.AddrFromSlice(value)
	e.alwaysMatches = false
	if ok && equal && !e.neverMatches {
		e.candidates.Addresses, e.neverMatches = append(e.candidates.Addresses, a), true
	}
}

// compareDevice decides which packets a comparison with the name of a device matches. Packets of
// pods do not come or go by the wire where they travel in a tunnel. Of a tunnel over IPv6, the wire is known here, and
// not to who would have to leave it alone.
func (e *exprEvaluator) compareDevice(value []byte, equal bool) {
	name := unix.ByteSliceToString(value)
	if len(name) == len(value) { // it has no 0 at its end
		name += "*"
	}
	onWire := name == e.Wire && e.Protocol != 0 && !e.chain.outer
	if e.mayTake && !e.ByDevice && equal && !e.neverMatches && !matchesDevice(name, e.Wire) {
		e.candidates.Devices, e.neverMatches = append(e.candidates.Devices, name), true
	}
	e.neverMatches = e.neverMatches || onWire && equal
	e.alwaysMatches = e.alwaysMatches && onWire && !equal
}

// audit audits the rules for tunnels of any address. If that finds something, it does so for those whose packets are
// none of the [Strangers].
func (a *RulesetAudit) audit(w *chainWalker, begins []baseChain) error {
	refuses := func(found RulesetAudit) bool { return found.PerPacket != "" || found.LeavesMark && w.ByDevice }
	without, again := *a, *w
	if err := a.walk(w, slices.Clone(begins)); err != nil || w.Protocol == 0 || !refuses(*a) {
		return err
	}
	again.strangers, again.counting, again.countingByIPTables = newStrangerSet(), newCountingRules(), newCountingRules()
	if err := without.walk(&again, begins); err != nil || refuses(without) {
		return err
	}
	*a, a.Strangers = without, again.strangers.all()
	return nil
}
