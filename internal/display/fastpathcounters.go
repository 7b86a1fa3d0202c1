package display

import (
	"fmt"
	"io"
	"slices"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/sanitize"
)

// printCounters prints which counters miss carried packets, and which do not.
func printCounters(w io.Writer, c fastpath.BypassedCounters, wire string) {
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
	row("IP statistics", "of this node, such as ForwDatagrams (nstat, /proc/net/snmp)")
	if c.InPods {
		sanitize.Fprintf(w, "%s counts all packets; tcpdump works there and in pods.\n", wire)
		return
	}
	sanitize.Fprintf(w, "%s and the devices in pods count all packets; tcpdump works there.\n", wire)
}
