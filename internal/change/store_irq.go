package change

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// IRQ is an interrupt of a network card.
type IRQ struct {
	Number int    // of today
	Action string // what its driver calls it: "eth0-TxRx-3"
	Cell   Cell
}

// IRQs lists the interrupts that the card behind a network device uses, in the
// order of their numbers. Sys is the folder that holds class and bus, Root that
// which holds proc. Error: os.ErrNotExist, if there is no card that has any.
func IRQs(sys, root, device string) ([]IRQ, error) {
	folder, err := cardOf(filepath.Join(sys, "class/net"), device)
	if err != nil {
		return nil, why(err)
	}
	// A device of virtio has those of the PCI device that it is in.
	for _, card := range []string{folder, filepath.Dir(folder)} {
		numbers, err := os.ReadDir(filepath.Join(card, "msi_irqs"))
		if err != nil {
			continue
		}
		actions, err := actionsOf(root)
		if err != nil {
			return nil, err
		}
		var irqs []IRQ
		for _, n := range numbers {
			number, err := strconv.Atoi(n.Name())
			if action := actions[number]; err == nil && action != "" {
				key := filepath.Base(card) + " " + action
				irqs = append(irqs, IRQ{number, action, Cell{Store: "irq", Key: key}})
			}
		}
		slices.SortFunc(irqs, func(a, b IRQ) int { return a.Number - b.Number })
		return irqs, nil
	}
	return nil, fmt.Errorf("it has no interrupts of its own: %w", os.ErrNotExist)
}

// cardOf gives the folder of the card behind a network device. A sysfs that is
// mounted nowhere has no name from which links could be followed one by one: the
// kernel follows those that are here, and the text of one says the rest.
func cardOf(net, device string) (string, error) {
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

// actionsOf reads what each interrupt is for.
func actionsOf(root string) (map[int]string, error) {
	f, err := os.Open(filepath.Join(root, "/proc/interrupts"))
	if err != nil {
		return nil, why(err)
	}
	defer f.Close()
	actions := map[int]string{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20) // a column for each core
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) < 2 {
			continue
		}
		if n, err := strconv.Atoi(strings.TrimSuffix(words[0], ":")); err == nil {
			actions[n] = words[len(words)-1]
		}
	}
	return actions, lines.Err()
}

// irqStore is which cores may handle interrupts of cards. A key is the card's
// address on its bus and the interrupt's action, "0000:00:03.0 eth0-TxRx-0":
// numbers are given anew when a driver or its queues start anew.
func irqStore(root string) Store {
	file := func(c Cell) (string, error) {
		n, err := numberOfIRQ(root, c.Key)
		return filepath.Join(root, "/proc/irq", strconv.Itoa(n), "smp_affinity_list"), err
	}
	return Store{
		Name: "irq",
		Read: func(c Cell) (Value, error) {
			name, err := file(c)
			if err != nil {
				return Value{}, err
			}
			return readText(name)
		},
		Write: func(c Cell, v Value) error {
			name, err := file(c)
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
		Alike: always(sameCores),
		Same:  always(sameCores),
	}
}

// numberOfIRQ finds the number that an interrupt has today.
func numberOfIRQ(root, key string) (int, error) {
	card, action, ok := strings.Cut(key, " ")
	if !ok || card != filepath.Base(card) {
		return 0, fmt.Errorf("%q is no interrupt of a card", key)
	}
	folders, err := filepath.Glob(filepath.Join(root, "/sys/bus/*/devices", card, "msi_irqs"))
	if err != nil || len(folders) == 0 {
		return 0, fmt.Errorf("card %s: %w", card, ErrGone)
	}
	numbers, err := os.ReadDir(folders[0])
	if err != nil {
		return 0, why(err)
	}
	actions, err := actionsOf(root)
	if err != nil {
		return 0, err
	}
	found := 0
	for _, n := range numbers {
		number, err := strconv.Atoi(n.Name())
		if err != nil || actions[number] != action {
			continue
		}
		if found != 0 {
			return 0, fmt.Errorf("card %s has two interrupts called %s", card, action)
		}
		found = number
	}
	if found == 0 {
		return 0, fmt.Errorf("card %s has no interrupt %s: %w", card, action, os.ErrNotExist)
	}
	return found, nil
}
