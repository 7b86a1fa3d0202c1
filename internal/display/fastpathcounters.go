package display

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/sanitize"
)

// ipStatistics are those of a node, with one that misses packets.
var ipStatistics = map[bool]string{
	false: "of this node, such as ForwDatagrams (nstat, /proc/net/snmp)",
	true:  "of this node, such as Ip6OutForwDatagrams (nstat, /proc/net/snmp6)",
}

// printCounters prints which counters miss packets that a fast path of some kind carries, and which do not:
// those of the wire, and of a tunnel's device that they pass.
func printCounters(w io.Writer, c fastpath.BypassedCounters, kind, wire string, tunnels []string) {
	sanitize.Fprintf(w, "\nMISSES CARRIED PACKETS\tWHAT\n")
	row := func(what, which string) { sanitize.Fprintf(w, "%s\t%s\n", what, which) }
	for _, device := range slices.Concat(c.Tunnels, c.Bridges) {
		row(device, "all statistics, and tcpdump")
	}
	if c.Veths > 0 {
		row(fmt.Sprintf("veth of pods (%d)", c.Veths), "statistics and tcpdump of packets into the pod (TX)")
	}
	if c.Netkits > 0 {
		row(fmt.Sprintf("netkit of pods (%d)", c.Netkits), "all statistics, and tcpdump")
	}
	if c.InPods {
		row("devices in pods", "received packets: this kernel does not count them; tcpdump works")
	}
	if c.Conntrack {
		row("conntrack", "packets and bytes of connections (net.netfilter.nf_conntrack_acct is 1)")
	}
	if c.Rules.Number > 0 {
		row("rules", fmt.Sprintf("%d that count or log: %s", c.Rules.Number, c.Rules))
	}
	if c.IPTables.Number > 0 {
		row("iptables", fmt.Sprintf("%d, each with a counter: %s", c.IPTables.Number, c.IPTables))
	}
	row("IP statistics", ipStatistics[kind == fastpath.Routed6 || kind == fastpath.VXLAN6])
	counting := []string{wire}
	if kind == fastpath.VXLAN6 {
		counting = slices.Concat(tunnels, counting)
	}
	if !c.InPods {
		counting = append(counting, "the devices in pods")
	}
	sanitize.Fprintf(w, "all packets are counted, and seen by tcpdump, at: %s\n", strings.Join(counting, ", "))
}
