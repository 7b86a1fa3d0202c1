package lab

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/verr"
)

// Wire is the link between the machines: a veth pair, or one from each to a
// switch, whose offloads are set so that it plays network cards that have them,
// or such as have not.
//
// Two of them depend on others. A card that does not compute checksums cannot
// segment, so csum=off takes both kinds of TSO with it. And a veth merges what
// it receives (GRO) only when the other end has TSO off: a card with TSO and
// GRO at once cannot be played, because packets that were never cut arrive
// whole. TunnelTSO does not matter to that.
type Wire struct {
	TSO       bool // cuts TCP into packets for the sender, and UDP (UDP_SEGMENT)
	TunnelTSO bool // the same inside of tunnels (UDP, GRE, IP in IP); without effect when TSO is off
	GRO       bool // merges packets for the receiver; see above
	Csum      bool // computes checksums for the sender
	MTU       int  // bytes
	GSOMax    int  // bytes of a stream that it takes at once, to cut them; `ip link`'s gso_max_size
	// RSS is how the card deals what it receives out to cores: see the constants.
	RSS string
}

// A veth has one queue, so RPS plays receive side scaling.
const (
	RSSNone  = ""   // what a packet is received on, the sender's core, carries it on
	RSSHosts = "l3" // a card that hashes addresses alone: one pair of hosts has one core, the last
	RSSPorts = "l4" // a card that hashes ports, too: flows are spread over all cores
)

// receiveCPUs are the cores that carry what a card receives, among those that its machine is
// confined to, if it is; none: nothing is steered. A card that deals out what it receives deals to
// none that are isolated, as the kernel would not. Errors are for a user.
func (w Wire) receiveCPUs(own, isolated []int) (cpus []int, err error) {
	if w.RSS == RSSNone {
		return own, nil
	}
	cpus = slices.Clone(own)
	if len(own) == 0 {
		if cpus, err = host.AllowedCPUs(); err != nil {
			return nil, err
		}
	}
	among := host.FormatNumbers(cpus)
	cpus = slices.DeleteFunc(cpus, func(cpu int) bool { return slices.Contains(isolated, cpu) })
	if len(cpus) == 0 {
		return nil, badRSS(w, fmt.Sprintf(
			"the machine's cores (%s) are all isolated (isolcpus, nohz_full), and the kernel steers no packets to such", among))
	}
	if w.RSS == RSSHosts {
		cpus = cpus[len(cpus)-1:]
	}
	return cpus, nil
}

func badRSS(w Wire, why string) error {
	return verr.New(verr.Usage, "cannot raise a lab with --wire rss="+w.RSS, why,
		"leave rss out, or give the machine other cores with --cores")
}

// Bounds of a wire's MTU, bytes: what every IPv4 host must take whole, and
// what the length field of IPv4 can say.
const (
	minMTU = 576
	maxMTU = 65535
)

// Bounds of what a wire takes at once, bytes: room for a packet with its headers,
// and what a card takes of which nothing is said.
const (
	minGSO = 2048
	maxGSO = 65536
)

// DefaultWire is a card that can do all that data centre cards do, but GRO,
// which a veth cannot play beside TSO.
func DefaultWire() Wire {
	return Wire{TSO: true, TunnelTSO: true, Csum: true, MTU: 1500, GSOMax: maxGSO}
}

// WireHelp explains the option's text, for --help.
const WireHelp = "offloads of the wire's network cards, as `KEY=VALUE,...`; the defaults are\n" +
	"tso=on,tunnel-tso=on,gro=off,csum=on,mtu=1500. tso=off turns UDP segmentation off, too;\n" +
	"tunnel-tso=off holds for all tunnels; csum=off turns both TSO off;\n" +
	"gro=on merges packets only when tso is off; gso-max-size=BYTES (default 65536) is the\n" +
	"largest packet that the cards segment; rss=l3 receives all packets of a machine on one\n" +
	"core, as a card that hashes addresses only; rss=l4 spreads flows over all cores"

// String gives the normal form, as ParseWire takes it: all that cards differ in, and
// what few have only where it is said.
func (w Wire) String() string {
	text := fmt.Sprintf("tso=%s,tunnel-tso=%s,gro=%s,csum=%s,mtu=%d",
		host.OnOff(w.TSO), host.OnOff(w.TunnelTSO), host.OnOff(w.GRO), host.OnOff(w.Csum), w.MTU)
	if w.GSOMax != maxGSO {
		text += fmt.Sprintf(",gso-max-size=%d", w.GSOMax)
	}
	if w.RSS != RSSNone {
		text += ",rss=" + w.RSS
	}
	return text
}

// ParseWire reads "key=value,..."; what is not named keeps its default. Errors
// are for a user.
func ParseWire(text string) (Wire, error) {
	w := DefaultWire()
	said := map[string]bool{}
	for _, part := range strings.Split(text, ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		key, value, ok := strings.Cut(part, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if !ok {
			return w, badWire(text, fmt.Sprintf("%q has no value", key))
		}
		if said[key] {
			return w, badWire(text, fmt.Sprintf("%q is given twice", key))
		}
		said[key] = true
		if err := w.set(key, value); err != nil {
			return w, badWire(text, err.Error())
		}
	}
	return w, w.settle(text, said)
}

func (w *Wire) set(key, value string) error {
	switch key {
	case "mtu":
		return number(&w.MTU, key, value, minMTU, maxMTU)
	case "gso-max-size":
		return number(&w.GSOMax, key, value, minGSO, maxGSO)
	case "rss":
		if value != RSSHosts && value != RSSPorts {
			return fmt.Errorf("rss is %q, not %s or %s", value, RSSHosts, RSSPorts)
		}
		w.RSS = value
		return nil
	}
	flag, ok := map[string]*bool{"tso": &w.TSO, "tunnel-tso": &w.TunnelTSO, "gro": &w.GRO, "csum": &w.Csum}[key]
	if !ok {
		return fmt.Errorf("there is no option %q", key)
	}
	if value != "on" && value != "off" {
		return fmt.Errorf("%s is %q, not on or off", key, value)
	}
	*flag = value == "on"
	return nil
}

// number reads one within bounds.
func number(into *int, key, value string, least, most int) error {
	n, err := strconv.Atoi(value)
	if err != nil || n < least || n > most {
		return fmt.Errorf("%s is %q, not a number from %d to %d", key, value, least, most)
	}
	*into = n
	return nil
}

// settle lets csum=off take TSO with it, but does not overrule what was said.
func (w *Wire) settle(text string, said map[string]bool) error {
	if w.Csum {
		return nil
	}
	for key, flag := range map[string]*bool{"tso": &w.TSO, "tunnel-tso": &w.TunnelTSO} {
		if *flag && said[key] {
			return badWire(text, key+"=on needs csum=on: a card that cannot compute checksums cannot segment")
		}
		*flag = false
	}
	return nil
}

func badWire(text, why string) error {
	return verr.New(verr.Usage, fmt.Sprintf("cannot read --wire %q", text), why,
		"give any of tso=on|off,tunnel-tso=on|off,gro=on|off,csum=on|off,mtu=576..65535,gso-max-size=2048..65536,rss=l3|l4")
}

// features says which offloads of a veth, by ethtool's names, play the wire.
func (w Wire) features() map[string]bool {
	all := map[string]bool{
		"tx-tcp-segmentation":          w.TSO,
		"tx-tcp-ecn-segmentation":      w.TSO,
		"tx-tcp-mangleid-segmentation": w.TSO,
		"tx-tcp6-segmentation":         w.TSO,
		"tx-udp_tnl-segmentation":      w.TunnelTSO,
		"tx-udp_tnl-csum-segmentation": w.TunnelTSO,
		"tx-gre-segmentation":          w.TunnelTSO,
		"tx-gre-csum-segmentation":     w.TunnelTSO,
		"tx-ipxip4-segmentation":       w.TunnelTSO,
		"tx-ipxip6-segmentation":       w.TunnelTSO,
		"rx-gro":                       w.GRO,
		"tx-checksum-ip-generic":       w.Csum,
	}
	if !w.TSO {
		all["tx-udp-segmentation"] = false // never asked to be on: a veth has it from Linux 5.11 on
	}
	return all
}
