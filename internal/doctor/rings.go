package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/host"
)

var ringDrops = Rule{
	Facts: Facts{
		Code:     "ring-drops",
		Title:    "A card drops packets because its receive ring is full",
		Severity: Warning,
		Looks:    "two readings of the card's counters of missed packets, fifo errors and missing buffers. Those that do not grow, but are above 0.01 % of all packets while the ring could be larger, are a note",
		Effect:   Impact{"igc with 256 entries: 425,000 overruns ended with 4096. A larger ring adds latency; not needed from kernel 6.11 on, says ESnet", "xunholy issue 4196, ESnet", "D"},
		Knob:     "nic.ring", Value: "rx=max",
		Do: "the link may go down for some seconds. If the ring is at its largest, spread the load over more queues, or where there are no more, over more CPUs (knob net.rps)",
	},
	Check: func(v *View) []Finding {
		return eachDevice(v, func(s *Netns, d *host.NetDevice) []Finding {
			if !d.Card {
				return nil
			}
			return v.ringDrops(s, d)
		})
	},
}

const missedShare = 1e-4

func (v *View) ringDrops(s *Netns, d *host.NetDevice) []Finding {
	now := v.Second.Devices[deviceKey{s.ID, d.Index}]
	told, below := d.Rings.RXMax > 0, d.Rings.RX < d.Rings.RXMax
	ring := Evidence{"ethtool rings of " + d.Name, fmt.Sprintf("rx %d of at most %d", d.Rings.RX, d.Rings.RXMax)}
	if !told {
		ring.Value = "its driver does not tell how large they are"
	}
	var growing, before []Evidence
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if !isMissed(name) || now[name] == 0 {
			continue
		}
		if n := v.deviceGrew(s, d, name); n > 0 {
			growing = append(growing, counted("statistics of "+d.Name, name, n, v.seconds()))
		}
		if float64(now[name]) > missedShare*float64(now["rx_packets"]) {
			before = append(before, Evidence{"statistics of " + d.Name, fmt.Sprintf("%s: %d of %d packets", name, now[name], now["rx_packets"])})
		}
	}
	f := finding(s, d, append(growing, ring)...)
	if len(growing) == 0 {
		if len(before) == 0 || !below {
			return nil
		}
		f = finding(s, d, append(before, ring)...)
		f.Severity = Note
	}
	if below {
		return []Finding{f}
	}
	f.Do = "the ring is as large as it can be"
	if !told {
		f.Do = "its ring cannot be made larger"
	}
	if d.MaxQueues > d.Queues {
		f.Knob, f.Value = "nic.channels", "max"
		f.Do += ": spread the load over more queues"
	} else {
		f.Knob = "net.rps"
		f.Do += ", and the card has no more queues to use: spread the work behind them over more CPUs (venturi knob set net.rps all --dev DEVICE), or have packets sent to it in smaller bursts"
	}
	return []Finding{f}
}

// isMissed tells whether a counter is of packets that there was no room for.
func isMissed(name string) bool {
	return name != "rx_packets" && name != "tx_packets" && name != "rx_dropped" && name != "tx_dropped" && strings.HasPrefix(name, "rx")
}
