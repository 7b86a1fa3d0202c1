package doctor

import (
	"fmt"

	"github.com/venturi-net/venturi/internal/host"
)

const maxBacklog = "net.core.netdev_max_backlog"

var backlogDrops = Rule{
	Facts: Facts{
		Code:     "backlog-drops",
		Title:    "Packets are dropped because too many wait for a CPU",
		Severity: Warning,
		Looks:    "two readings of the second column of softnet_stat: it grows. All veth pairs of a CPU, and RPS, share that queue",
		Effect:   Impact{"a longer queue ended the loss of a Kubernetes network over VXLAN, where a larger budget had not", "bpftune issue 178", "B"},
		Knob:     "net.backlog",
		Do:       "a longer queue adds latency when it is full",
	},
	Check: func(v *View) []Finding {
		n := v.softnetGrew(func(c host.CPUCounters) uint64 { return c.Dropped })
		if n == 0 {
			return nil
		}
		f := finding(nil, nil, counted("/proc/net/softnet_stat", "column 2 (dropped)", n, v.seconds()), sysctl(maxBacklog, v.Sysctls))
		if now := number(v.Sysctls, maxBacklog); now > 0 {
			f.Value = fmt.Sprint(max(2*now, usualBacklog))
		}
		return []Finding{f}
	},
}

// softnetGrew sums how much a counter of all CPUs grew; they have 32 bits.
func (v *View) softnetGrew(counter func(host.CPUCounters) uint64) (sum uint64) {
	for _, n := range v.countedCPUs() {
		sum += uint64(uint32(counter(v.Second.CPUs[n])) - uint32(counter(v.First.CPUs[n])))
	}
	return sum
}

// usualBacklog is what the kernel begins with.
const usualBacklog = 1000

var backlogSmall = Rule{
	Facts: Facts{
		Code:     "backlog-small",
		Title:    "Few packets may wait for a CPU",
		Severity: Warning,
		Looks:    "sysctl " + maxBacklog + ": below the kernel's default of 1000",
		Effect:   Impact{"bursts to pods and through RPS are lost", "bpftune issue 178: loss in a Kubernetes network ended with a longer queue", "B"},
		Knob:     "net.backlog", Value: fmt.Sprint(usualBacklog),
	},
	Check: func(v *View) []Finding {
		if n := number(v.Sysctls, maxBacklog); n < 0 || n >= usualBacklog {
			return nil
		}
		return []Finding{finding(nil, nil, sysctl(maxBacklog, v.Sysctls))}
	},
}

const (
	squeezeRate = 10   // a second
	squeezeOf   = 0.01 // of the softirqs that receive

	doubleBudget = "first check for one hot CPU and for backlog drops; then double it step by step"
)

var timeSqueeze = Rule{
	Facts: Facts{
		Code:     "time-squeeze",
		Title:    "CPUs run out of time or budget while they receive",
		Severity: Warning,
		Looks:    "two readings of the third column of softnet_stat: it grows by ten a second or more, and by 1 % of the receive softirqs",
		Effect:   Impact{"packets wait longer; more budget alone did not end losses, and 300 ms of it starved other work", "bpftune issue 178", "B"},
		Knob:     "net.budget",
		Do:       doubleBudget,
	},
	Check: func(v *View) []Finding {
		n := v.softnetGrew(func(c host.CPUCounters) uint64 { return c.Squeezed })
		var runs uint64
		for _, cpu := range v.countedCPUs() {
			runs += grew(v.First.CPUs[cpu].NetRX, v.Second.CPUs[cpu].NetRX)
		}
		if n == 0 || float64(n) < squeezeRate*v.seconds() || float64(n) < squeezeOf*float64(runs) {
			return nil
		}
		f := finding(nil, nil, counted("/proc/net/softnet_stat", "column 3 (time_squeeze)", n, v.seconds()),
			sysctl("net.core.netdev_budget", v.Sysctls), sysctl("net.core.netdev_budget_usecs", v.Sysctls))
		if now := number(v.Sysctls, "net.core.netdev_budget"); now > 0 {
			f.Do = fmt.Sprintf("%s: venturi knob set net.budget %d", doubleBudget, 2*now)
		}
		return []Finding{f}
	},
}
