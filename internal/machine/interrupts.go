package machine

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
)

// IRQ is an interrupt of a network card.
type IRQ struct {
	Number int
	Name   string // as /proc/interrupts has it: "eth0-TxRx-3"
	CPUs   string // that may handle it, as a list: "0-3,8"
}

// IRQs lists the interrupts of a network device of the machine itself, in the
// order of their numbers; none for one without hardware.
func (r Reader) IRQs(device string) []IRQ {
	var folder []os.DirEntry
	// That of virtio belongs to the PCI device above.
	for _, at := range []string{"msi_irqs", "../msi_irqs"} {
		link, err := filepath.EvalSymlinks(r.path("sys/class/net", device, "device"))
		if err != nil {
			return nil
		}
		if folder, err = os.ReadDir(filepath.Join(link, at)); err == nil {
			break
		}
	}
	names := map[int]string{}
	for line := range r.fields("proc/interrupts") {
		if n, err := strconv.Atoi(strings.TrimSuffix(line[0], ":")); err == nil {
			names[n] = line[len(line)-1]
		}
	}
	var irqs []IRQ
	for _, e := range folder {
		n, err := strconv.Atoi(e.Name())
		if err != nil || names[n] == "" {
			continue // it was given to the card, and is not used
		}
		irqs = append(irqs, IRQ{Number: n, Name: names[n], CPUs: r.line(fmt.Sprintf("proc/irq/%d/smp_affinity_list", n))})
	}
	sort.Slice(irqs, func(i, j int) bool { return irqs[i].Number < irqs[j].Number })
	return irqs
}

// Governors counts the CPUs' frequency policies by their governors.
func (r Reader) Governors() map[string]int {
	count := map[string]int{}
	files, _ := filepath.Glob(r.path("sys/devices/system/cpu/cpufreq/policy*/scaling_governor"))
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil {
			count[strings.TrimSpace(string(text))]++
		}
	}
	return count
}

// Modules lists the kernel modules that are loaded; those that were not built
// with the kernel are true.
func (r Reader) Modules() map[string]bool {
	modules := map[string]bool{}
	for line := range r.fields("proc/modules") {
		modules[line[0]] = strings.Contains(r.line("sys/module", line[0], "taint"), "O")
	}
	return modules
}

// Hypervisor names what the machine runs on; empty: bare metal.
func (r Reader) Hypervisor() string { return r.hypervisor(r.cpuinfo()) }
