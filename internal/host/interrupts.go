package host

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// IRQ is an interrupt of a network card.
type IRQ struct {
	Card   string // the card's address on its bus: "0000:00:03.0"
	Index  int    // which of the card's own interrupts it is; -1: the kernel does not tell
	Number int    // that it has today
	Name   string // as /proc/interrupts has it: "eth0-TxRx-3"; empty: nothing uses it now, as while its device is down
	CPUs   string // that may handle it, as a list: "0-3,8"
}

// mostVectors is how many interrupts a card can have, a power of two.
const mostVectors = 2048

// IRQs lists the interrupts that the card behind a network device uses, in the
// order of their numbers. Sys is the folder that shows the device; empty: the
// reader's own. Error: os.ErrNotExist, if there is no card that has any.
func (r Reader) IRQs(sys, device string) ([]IRQ, error) {
	folder, err := r.cardOf(sys, device)
	if err != nil {
		return nil, err
	}
	// A device of virtio has those of the PCI device that it is in.
	for _, card := range []string{folder, filepath.Dir(folder)} {
		if irqs, err := r.vectors(card); !errors.Is(err, os.ErrNotExist) {
			return UsedIRQs(irqs), err
		}
	}
	return nil, fmt.Errorf("it has no interrupts of its own: %w", os.ErrNotExist)
}

// UsedIRQs are those of some interrupts that something uses.
func UsedIRQs(irqs []IRQ) []IRQ {
	return slices.DeleteFunc(slices.Clone(irqs), func(irq IRQ) bool { return irq.Name == "" })
}

// CardCores lists the cores near the card behind a network device, those of its NUMA
// node: "0-15". Empty: there is no such card, or the kernel does not tell. Sys is as
// of [Reader.IRQs].
func (r Reader) CardCores(sys, device string) string {
	folder, err := r.cardOf(sys, device)
	if err != nil {
		return ""
	}
	for _, card := range []string{folder, filepath.Dir(folder)} {
		if list, err := os.ReadFile(filepath.Join(card, "local_cpulist")); err == nil {
			return strings.TrimSpace(string(list))
		}
	}
	return ""
}

// CardDriver names the driver of the card behind a network device. Empty: there is no such
// card, or the kernel does not tell. Sys is as of [Reader.IRQs].
func (r Reader) CardDriver(sys, device string) string {
	folder, err := r.cardOf(sys, device)
	if err != nil {
		return ""
	}
	driver, err := os.Readlink(filepath.Join(folder, "driver"))
	if err != nil {
		return ""
	}
	return filepath.Base(driver)
}

// CardIRQs lists those of a card, by its address on its bus, with those that nothing uses
// now. Errors: [ErrGone], if there is none on any bus; os.ErrNotExist, if it has none.
func (r Reader) CardIRQs(card string) ([]IRQ, error) {
	buses, err := os.ReadDir(r.path("sys/bus"))
	if err != nil || len(buses) == 0 { // it may be there: no os.ErrNotExist
		return nil, fmt.Errorf("card %s: /sys/bus does not show the buses here", card)
	}
	for _, bus := range buses {
		folder := filepath.Join(r.path("sys/bus"), bus.Name(), "devices", card)
		_, err := os.Stat(folder)
		if err == nil {
			return r.vectors(folder)
		}
		if !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("card %s: %w", card, err)
		}
	}
	return nil, fmt.Errorf("card %s: %w", card, ErrGone)
}

// unusedEnd ends the line of an interrupt that nothing uses, and that has come before:
// which of its card's it is, and how the card signals it, "3-edge".
var unusedEnd = regexp.MustCompile(`^([0-9]+(-[a-z]+)?|Edge|Level)$`)

// vectors lists the interrupts of the card in a folder.
func (r Reader) vectors(card string) ([]IRQ, error) {
	numbers, err := os.ReadDir(filepath.Join(card, "msi_irqs"))
	if err != nil {
		return nil, err
	}
	names := map[int]string{}
	for line := range r.fields("proc/interrupts") {
		last := line[len(line)-1]
		if n, err := strconv.Atoi(strings.TrimSuffix(line[0], ":")); err == nil && !unusedEnd.MatchString(last) {
			names[n] = last
		}
	}
	var irqs []IRQ
	for _, e := range numbers {
		n, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		irq := IRQ{Card: filepath.Base(card), Index: -1, Number: n, Name: names[n], CPUs: r.line(fmt.Sprintf("proc/irq/%d/smp_affinity_list", n))}
		// Older kernels put above the index which card of all it is.
		if of, err := strconv.ParseInt(r.line(fmt.Sprintf("sys/kernel/irq/%d/hwirq", n)), 10, 64); err == nil {
			irq.Index = int(of & (mostVectors - 1))
		}
		irqs = append(irqs, irq)
	}
	slices.SortFunc(irqs, func(a, b IRQ) int { return cmp.Compare(a.Number, b.Number) })
	return irqs, nil
}

// cardOf gives the folder of the card behind a network device. Sys is as of [Reader.IRQs]. A
// sysfs that is mounted nowhere has no name from which links could be followed one by one:
// the kernel follows those that are here, and the text of one says the rest.
func (r Reader) cardOf(sys, device string) (string, error) {
	if sys == "" {
		sys = r.path("sys")
	}
	net := filepath.Join(sys, "class/net")
	file := filepath.Join(net, device, "device")
	if _, err := os.Stat(file); err != nil {
		return "", err
	}
	link, err := os.Readlink(filepath.Join(net, device)) // "../../devices/pci0000:00/0000:00:03.0/virtio0/net/eth0"
	if err != nil {
		return filepath.EvalSymlinks(file) // no link, as in a tree that somebody copied
	}
	return filepath.Join(net, link, "../.."), nil
}
