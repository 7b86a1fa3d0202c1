package doctor

import (
	"fmt"
	"strings"
)

const (
	conntrackCount = "net.netfilter.nf_conntrack_count"
	conntrackMax   = "net.netfilter.nf_conntrack_max"

	fullShare   = 0.8  // of the table, from which on it is a finding
	lossShare   = 0.95 // and an error
	tunnelShare = 0.2  // that connections of tunnels may take
)

var conntrackFull = Rule{
	Facts: Facts{
		Code:     "conntrack-full",
		Title:    "The table of connections is nearly full",
		Severity: Error,
		Looks:    "the connections that each namespace tracks, against the most that it may: 80 % is a warning, 95 % an error",
		Effect:   Impact{"when it is full, packets of new connections are dropped", "kernel: nf_conntrack: table full, dropping packet", "C"},
		Knob:     "ct.size",
		Do:       "first see what fills it: packets of tunnels need no tracking (finding tunnel-conntracked)",
	},
	Check: func(v *View) (all []Finding) {
		for _, s := range v.Netns {
			count, most := number(s.Sysctls, conntrackCount), number(s.Sysctls, conntrackMax)
			if most <= 0 || float64(count) < fullShare*float64(most) {
				continue
			}
			f := finding(s, nil, sysctl(conntrackCount, s.Sysctls), sysctl(conntrackMax, s.Sysctls))
			f.Value = fmt.Sprintf("max=%d", 2*most)
			f.Severity = Warning
			if float64(count) >= lossShare*float64(most) {
				f.Severity = Error
			}
			all = append(all, f)
		}
		return all
	},
}

var tunnelConntracked = Rule{
	Facts: Facts{
		Code:     "tunnel-conntracked",
		Title:    "Packets of tunnels are tracked as connections",
		Severity: Warning,
		Looks:    "tracked connections to the UDP ports of tunnels in their namespace: a note, or a warning when they take 20 % of the table",
		Effect:   Impact{"work for each packet, and a table full of random source ports", "OpenStack's neutron charm saw it full of them", "C"},
		Knob:     "ct.notrack",
		Do:       "stateful rules for the outer packets then have no effect",
	},
	Check: func(v *View) (all []Finding) {
		for _, s := range v.Netns {
			if s.Tracked <= 0 {
				continue
			}
			var ports []string
			for _, d := range s.Devices {
				if d.Tunnel != nil && d.Tunnel.Port > 0 && d.Up {
					ports = append(ports, fmt.Sprint(d.Tunnel.Port))
				}
			}
			f := finding(s, nil, Evidence{"conntrack table", fmt.Sprintf("%d connections to UDP port %s", s.Tracked, strings.Join(ports, ", "))})
			if most := number(s.Sysctls, conntrackMax); most <= 0 || float64(s.Tracked) < tunnelShare*float64(most) {
				f.Severity = Note
			}
			all = append(all, f)
		}
		return all
	},
}
