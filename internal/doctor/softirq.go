package doctor

import (
	"fmt"
	"maps"
	"slices"

	"github.com/venturi-net/venturi/internal/host"
)

const (
	hotShare  = 0.6  // of its time that a CPU is in softirqs
	coolShare = 0.25 // that all others are on average
	hotRate   = 5000 // packets a second: below, it is something else
)

var hotCore = Rule{
	Facts: Facts{
		Code:     "softirq-hot-core",
		Title:    "One CPU does almost all of the network's work",
		Severity: Warning,
		Looks:    "two readings of /proc/stat, /proc/softirqs and softnet_stat: a CPU is in softirqs for 60 % of its time and takes most of the packets, while the others are below 25 %",
		Effect:   Impact{"that CPU limits the network of the whole host", "kernel documentation, networking/scaling; VXLAN on one queue reached 2 to 3 of 10 Gbit/s (Cumulus knowledge base)", "B"},
		Knob:     "net.rps",
		Do:       "a single flow always stays on one CPU. Otherwise check first whether the card could use more queues (knobs nic.channels, nic.rss_udp, irq.affinity), then spread by software: venturi knob set net.rps all --dev DEVICE",
	},
	Check: func(v *View) []Finding {
		cpus := v.countedCPUs()
		if !v.hasInterval() || len(cpus) < 2 {
			return nil
		}
		load := map[int]cpuLoad{}
		var packets uint64
		for _, n := range cpus {
			load[n] = loadOf(v.First.CPUs[n], v.Second.CPUs[n])
			packets += load[n].packets
		}
		hot := hottest(load)
		others := 0.0
		for n, l := range load {
			if n != hot {
				others += l.softirq / float64(len(load)-1)
			}
		}
		l := load[hot]
		if l.softirq < hotShare || others >= coolShare || 2*l.packets < packets || float64(l.packets) < hotRate*v.seconds() {
			return nil
		}
		f := finding(nil, nil,
			Evidence{"/proc/stat", fmt.Sprintf("CPU %d in softirqs for %.0f %% of its time, the others for %.0f %%", hot, 100*l.softirq, 100*others)},
			Evidence{"/proc/net/softnet_stat", fmt.Sprintf("CPU %d took %d of %d packets in %.1f s", hot, l.packets, packets, v.seconds())},
			Evidence{"/proc/softirqs", fmt.Sprintf("NET_RX of CPU %d grew by %d", hot, l.netRX)})
		f.location = v.busiest()
		return []Finding{f}
	},
}

// cpuLoad is what a CPU did between two readings.
type cpuLoad struct {
	softirq, steal float64 // share of its time
	packets, netRX uint64
}

func loadOf(before, after host.CPUCounters) cpuLoad {
	total := float64(max(grew(before.Total, after.Total), 1))
	return cpuLoad{
		softirq: float64(grew(before.Softirq, after.Softirq)) / total,
		steal:   float64(grew(before.Steal, after.Steal)) / total,
		packets: uint64(uint32(after.Packets) - uint32(before.Packets)), // 32 bits that wrap
		netRX:   grew(before.NetRX, after.NetRX),
	}
}

func hottest(load map[int]cpuLoad) int {
	hot := -1
	for _, n := range slices.Sorted(maps.Keys(load)) {
		if hot < 0 || load[n].softirq > load[hot].softirq {
			hot = n
		}
	}
	return hot
}

// busiest is the card that received most; nothing when there is none.
func (v *View) busiest() (w location) {
	var most uint64
	for _, s := range v.Netns {
		for i := range s.Devices {
			if n := v.deviceGrew(s, &s.Devices[i], "rx_packets"); s.Devices[i].Card && n > most {
				most, w = n, location{s, &s.Devices[i]}
			}
		}
	}
	return w
}
