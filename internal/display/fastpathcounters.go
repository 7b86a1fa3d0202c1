package display

import (
	"fmt"
	"io"
	"slices"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/sanitize"
)

// printCounters prints what stands still while packets are carried, and what does not.
func printCounters(w io.Writer, c fastpath.BypassedCounters, wire string) {
	sanitize.Fprintf(w, "\nSTANDS STILL\tWHILE PACKETS ARE CARRIED\n")
	row := func(what, which string) { sanitize.Fprintf(w, "%s\t%s\n", what, which) }
	for _, device := range slices.Concat(c.Tunnels, c.Bridges) {
		row(device, "its statistics; tcpdump there does not show carried packets")
	}
	if c.Veths > 0 {
		row(fmt.Sprintf("veth of pods (%d)", c.Veths), "statistics of what goes into the pod (TX here); tcpdump there does not show it")
	}
	if c.Netkits > 0 {
		row(fmt.Sprintf("netkit of pods (%d)", c.Netkits), "their statistics; tcpdump there does not show carried packets")
	}
	if c.InPods {
		row("devices in pods", "statistics of what they receive, which this kernel does not count; tcpdump there shows it")
	}
	if c.Conntrack {
		row("conntrack", "packets and bytes of connections (net.netfilter.nf_conntrack_acct is 1)")
	}
	if c.Rules.Number > 0 {
		row("rules", fmt.Sprintf("%d that count or log: %s", c.Rules.Number, c.Rules))
	}
	if c.IPTables.Number > 0 {
		row("iptables", fmt.Sprintf("%d that count, as all rules of iptables do: %s", c.IPTables.Number, c.IPTables))
	}
	row("IP statistics", "of this node, such as ForwDatagrams (nstat, /proc/net/snmp)")
	if c.InPods {
		sanitize.Fprintf(w, "All packets are still counted at %s. tcpdump shows them there and in pods.\n", wire)
		return
	}
	sanitize.Fprintf(w, "All packets are still counted at %s and at the devices in pods, and tcpdump shows them there.\n", wire)
}
