package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/venturi-net/venturi/internal/host"
)

// fewQueues: with less, irqbalance itself may have spread them so.
const fewQueues = 4

var irqbalancePinned = Rule{
	Facts: Facts{
		Code:     "irqbalance-pinned",
		Title:    "irqbalance moves interrupts that somebody has pinned",
		Severity: Warning,
		Looks:    "the interrupts of cards: four or more, each on one CPU, in the order of the CPUs; and irqbalance, which is not configured to leave any alone (--banirq, --policyscript)",
		Effect:   Impact{"it moves them again within ten seconds. Off (Kube-OVN, Cilium, ESnet) against on (AWS): sources contradict; wrong socket up to 2x slower (ESnet)", "Kube-OVN, Cilium, ESnet, AWS ENA guide", "D"},
		Knob:     "irq.balance",
		Do:       "either tell it to leave these interrupts alone, or undo the pinning",
	},
	Check: func(v *View) (all []Finding) {
		pid := v.Owners["irqbalance"]
		if pid == 0 || strings.Contains(v.Balancer, "--banirq") || strings.Contains(v.Balancer, "--policyscript") {
			return nil
		}
		for _, name := range slices.Sorted(maps.Keys(v.IRQs)) {
			from, inOrder := placed(v.IRQs[name])
			if !inOrder {
				continue
			}
			f := finding(nil, nil,
				Evidence{"/proc/irq/*/smp_affinity_list", fmt.Sprintf("%d interrupts of %s on CPUs %d, %d, ... one by one", len(v.IRQs[name]), name, from, from+1)},
				Evidence{"process", fmt.Sprintf("irqbalance, pid %d", pid)})
			f.location = v.homeDevice(name)
			all = append(all, f)
		}
		return all
	},
}

// placed tells whether interrupts are on one CPU each, every one on the next.
func placed(irqs []host.IRQ) (first int, inOrder bool) {
	var cpus []int
	for _, irq := range irqs {
		n, err := strconv.Atoi(irq.CPUs)
		if err != nil {
			continue // that of the card as a whole is often on all
		}
		cpus = append(cpus, n)
	}
	if len(cpus) < fewQueues {
		return 0, false
	}
	for i := 1; i < len(cpus); i++ {
		if cpus[i] != cpus[i-1]+1 {
			return 0, false
		}
	}
	return cpus[0], true
}

// homeDevice is a device of the machine's own namespace.
func (v *View) homeDevice(name string) location {
	home := v.home()
	for i := range home.Devices {
		if home.Devices[i].Name == name {
			return location{home, &home.Devices[i]}
		}
	}
	return location{}
}
