package fastpath

import (
	"fmt"
	"slices"

	"github.com/venturi-net/venturi/internal/fastpath/audit"
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
)

// Kinds of counters that [Config].KeepCounters may name.
const (
	KeepConntrack = "conntrack" // packets and bytes of connections
	KeepRules     = "rules"     // of rules that somebody has made count or log
	KeepIPTables  = "iptables"  // of all rules of iptables
)

// CounterKinds are all of them.
var CounterKinds = []string{KeepConntrack, KeepRules, KeepIPTables}

// PurposefulCounters are those that count only where somebody has asked for it.
var PurposefulCounters = []string{KeepConntrack, KeepRules}

// BypassedCounters are what misses carried packets. The programs cannot keep them: no helper of the
// kernel lets a program raise the statistics of a device, the counter of a rule or the accounting of a
// connection, nor can a daemon set them.
type BypassedCounters struct {
	// Tunnels and Bridges are devices that carried packets bypass: neither statistics nor captures
	// there show them.
	Tunnels []string `json:"tunnels"`
	Bridges []string `json:"bridges"`
	// Veths and Netkits are how many devices of pods there are on the node. Carried packets into a
	// pod bypass either kind, those out of it a netkit device only.
	Veths   int `json:"veths"`
	Netkits int `json:"netkits"`
	// InPods: the pods' own devices do not count what is carried into them, though captures there
	// show it. See [BypassedCounters.AskKernel].
	InPods    bool               `json:"in_pods"`
	Conntrack bool               `json:"conntrack"` // connection tracking counts
	Rules     audit.RuleCounters `json:"rules"`
	IPTables  audit.RuleCounters `json:"iptables"`
}

// Conflict says why nothing is carried if counters of some kinds are to be kept true; "": none of them
// would miss a packet. It stays the same while rules come and go in the same chain.
func (c BypassedCounters) Conflict(keep []string) string {
	for _, kind := range keep {
		why := ""
		switch {
		case kind == KeepConntrack && c.Conntrack:
			why = "connection accounting is on (net.netfilter.nf_conntrack_acct=1)"
		case kind == KeepRules && c.Rules.Number > 0:
			why = fmt.Sprintf("established flows may reach rules that count or log (in %s)", c.Rules.Chain())
		case kind == KeepIPTables && c.IPTables.Number > 0:
			why = fmt.Sprintf("established flows may reach rules of iptables (in %s)", c.IPTables.Chain())
		}
		if why != "" {
			return "--keep-counters=" + kind + " is given, and " + why
		}
	}
	return ""
}

// bypassedDevices are the devices that packets are carried past.
func bypassedDevices(of topology.DeviceNames, topo topology.Topology) BypassedCounters {
	c := BypassedCounters{Tunnels: append([]string{}, of.Tunnels...), Bridges: []string{}} // and not null
	if of.Family == audit.IPv6 {
		c.Tunnels = []string{} // which carried packets pass
	}
	if of.GenevePort != 0 {
		c.Tunnels = []string{}
		for _, p := range topo.NextHops {
			if tunnel := topo.TC[p.Device].Name; !slices.Contains(c.Tunnels, tunnel) {
				c.Tunnels = append(c.Tunnels, tunnel)
			}
		}
	}
	for _, p := range topo.Pods {
		if topo.TC[p.Device].Netkit {
			c.Netkits++
		} else {
			c.Veths++
		}
		if bridge := topo.TC[p.NeighDevice].Name; p.NeighDevice != p.Device && !slices.Contains(c.Bridges, bridge) {
			c.Bridges = append(c.Bridges, bridge)
		}
	}
	slices.Sort(c.Bridges)
	return c
}

// AskKernel finds out what depends on the kernel alone. The daemon leaves it to those who print
// counters: it reads the kernel's types, which takes some megabytes.
func (c *BypassedCounters) AskKernel() { c.InPods = !kernel.CountsRedirected() }

// counters are those that miss carried packets now.
func (d *daemon) counters() BypassedCounters {
	c := d.bypassed
	c.Conntrack, c.Rules, c.IPTables = d.audit.accounting, d.audit.rules.Counters, d.audit.rules.IPTablesCounters
	return c
}
