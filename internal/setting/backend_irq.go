package setting

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
)

// IRQSetting is the setting with the cores that may handle an interrupt.
func IRQSetting(irq host.IRQ) Setting {
	key := irq.Card + " " + irq.Name
	if irq.Index >= 0 {
		key += " " + strconv.Itoa(irq.Index)
	}
	return Setting{Backend: "irq", Key: key}
}

// irqBackend is which cores may handle interrupts of cards. A key is the card's
// address on its bus, what the driver calls the interrupt, and which of the card's
// interrupts it is, if the kernel tells: "0000:00:03.0 eth0-TxRx-0 1". Numbers are
// given anew when a driver or its queues start anew.
func irqBackend(root string) Backend {
	file := func(s Setting) (string, error) {
		n, err := numberOfIRQ(root, s.Key)
		return filepath.Join(root, "/proc/irq", strconv.Itoa(n), "smp_affinity_list"), err
	}
	return Backend{
		Name: "irq",
		Read: func(s Setting) (Value, error) {
			name, err := file(s)
			if err != nil {
				return Value{}, err
			}
			return readText(name)
		},
		Write: func(s Setting, v Value) error {
			name, err := file(s)
			if err != nil {
				return err
			}
			err = writeText(name, v)
			switch {
			case errors.Is(err, unix.EIO):
				return fmt.Errorf("the kernel itself spreads this interrupt over the cores, and lets nobody move it: %w", err)
			case errors.Is(err, unix.ENOSPC):
				return fmt.Errorf("these cores have no room for another interrupt: %w", err)
			}
			return err
		},
		Matches:    anySetting(equivalentCores),
		Equivalent: anySetting(equivalentCores),
	}
}

// numberOfIRQ finds the number that an interrupt has today. It is the one at its
// place in the card that is for the same queue, whatever its name is now: drivers
// name interrupts by the device. Where the places are others, its name tells.
func numberOfIRQ(root, key string) (int, error) {
	words := strings.Fields(key)
	if len(words) < 2 || len(words) > 3 || words[0] != filepath.Base(words[0]) {
		return 0, fmt.Errorf("%q is no interrupt of a card", key)
	}
	card, name, index := words[0], words[1], -1
	if len(words) == 3 {
		n, err := strconv.Atoi(words[2])
		if err != nil {
			return 0, fmt.Errorf("%q is no interrupt of a card: %w", key, err)
		}
		index = n
	}
	all, err := host.Reader{Root: root}.CardIRQs(card)
	if err != nil {
		return 0, err
	}
	irqs := host.UsedIRQs(all)
	there := func(irq host.IRQ) bool { return index >= 0 && irq.Index == index }
	for _, is := range []func(host.IRQ) bool{
		func(irq host.IRQ) bool { return there(irq) && queueOf(irq.Name) == queueOf(name) },
		func(irq host.IRQ) bool { return irq.Name == name },
	} {
		found := slices.DeleteFunc(slices.Clone(irqs), func(irq host.IRQ) bool { return !is(irq) })
		if len(found) == 1 {
			return found[0].Number, nil
		}
	}
	if slices.ContainsFunc(irqs, func(irq host.IRQ) bool { return irq.Name == name }) {
		return 0, fmt.Errorf("card %s has several interrupts called %s", card, name)
	}
	if isUnused(all, name, index) {
		return 0, &host.InactiveError{Why: fmt.Sprintf("nothing uses interrupt %s of card %s now, as while its device is down", name, card)}
	}
	return 0, fmt.Errorf("card %s has no interrupt %s: %w", card, name, os.ErrNotExist)
}

// isUnused tells whether the interrupt may be one that nothing uses now. Drivers let go of
// them while a device is down, and the kernel keeps which cores each may go to. Where that
// of another of its queues is used, the device is up, and has fewer queues.
func isUnused(all []host.IRQ, name string, index int) bool {
	kind := func(name string) string { return strings.TrimRight(name, "0123456789") }
	kept, up := false, false
	for _, irq := range all {
		kept = kept || irq.Name == "" && (index < 0 || irq.Index < 0 || irq.Index == index)
		up = up || queueOf(irq.Name) != "" && kind(irq.Name) == kind(name)
	}
	return kept && !up
}

// queuePart is the end of an interrupt's name that says what it is for: "-TxRx-0"
// of "eth0-TxRx-0".
var queuePart = regexp.MustCompile(`-[^-]*(-[0-9]+)?$`)

// queueOf is that of a name; empty: it is the device's name alone.
func queueOf(name string) string { return queuePart.FindString(name) }
