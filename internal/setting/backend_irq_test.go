package setting_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/testenv"
)

// interruptLines shows interrupts from number 30 on, as the kernel does. One without a name
// nothing uses; that of an odd number has not come before, and is not shown.
func interruptLines(names ...string) string {
	text := "            CPU0\n"
	for i, name := range names {
		if name != "" || i%2 == 0 {
			text += fmt.Sprintf(" %d:  5  PCI-MSIX-0000:00:03.0  %d-edge  %s\n", 30+i, i, name)
		}
	}
	return text
}

// vectors is a machine whose card has interrupts from number 30 on, in the order
// of their places. What may handle each of them is the core of its place.
func vectors(t *testing.T, names ...string) (root string) {
	t.Helper()
	files := map[string]string{"proc/interrupts": interruptLines(names...)}
	for i := range names {
		files[fmt.Sprintf("proc/irq/%d/smp_affinity_list", 30+i)] = fmt.Sprintf("%d\n", i)
		files[fmt.Sprintf("sys/kernel/irq/%d/hwirq", 30+i)] = fmt.Sprintf("%d\n", 48<<11+i)
		files[fmt.Sprintf("sys/bus/pci/devices/0000:00:03.0/msi_irqs/%d", 30+i)] = "msix\n"
	}
	root = t.TempDir()
	for name, text := range files {
		name = filepath.Join(root, name)
		testenv.Must(t, os.MkdirAll(filepath.Dir(name), 0o755))
		testenv.Must(t, os.WriteFile(name, []byte(text), 0o644))
	}
	return root
}

// An interrupt is found again by its place and its queue when its device has got
// another name, and by its name when the places are others; what is neither is
// not taken for it.
func TestIRQFoundAgain(t *testing.T) {
	was := []string{"eth0-TxRx-0", "eth0-TxRx-1", "eth0-TxRx-2", "eth0"}
	for _, c := range []struct {
		what string
		now  []string
		core []string // of each of them; "-": it is gone
	}{
		{"nothing changed", was, []string{"0", "1", "2", "3"}},
		{"the device is called otherwise", []string{"enp1s0-TxRx-0", "enp1s0-TxRx-1", "enp1s0-TxRx-2", "enp1s0"}, []string{"0", "1", "2", "3"}},
		{"the driver puts its own name first", []string{"ice-eth0-TxRx-0", "ice-eth0-TxRx-1", "ice-eth0-TxRx-2", "ice-eth0"}, []string{"0", "1", "2", "-"}},
		{"it has fewer queues", []string{"eth0-TxRx-0", "eth0"}, []string{"0", "-", "-", "1"}},
		{"fewer, and another name", []string{"enp1s0-TxRx-0", "enp1s0-TxRx-1", "enp1s0"}, []string{"0", "1", "-", "-"}},
		{"two ports change their names", []string{"eth1-TxRx-0", "eth1-TxRx-1", "eth1-TxRx-2", "eth1", "eth0-TxRx-0"}, []string{"0", "1", "2", "3"}},
	} {
		irqs, err := host.Reader{Root: vectors(t, was...)}.CardIRQs("0000:00:03.0")
		testenv.Must(t, err)
		settings := setting.NewSettings(setting.Backends(vectors(t, c.now...))...)
		for i, want := range c.core {
			v, err := settings.Read(setting.IRQSetting(irqs[i]))
			switch got := v.String(); {
			case want == "-" && !errors.Is(err, os.ErrNotExist):
				t.Errorf("%s: %s is still found: core %q, %v", c.what, was[i], got, err)
			case want != "-" && (err != nil || got != want+"\n"):
				t.Errorf("%s: %s is on core %q, %v; want %s", c.what, was[i], got, err, want)
			}
		}
	}
}

// While its device is down nothing uses an interrupt, and the kernel keeps where it may go: its
// change stays open, and is undone when the device is up again. Where another queue's is used,
// the device is up, and has fewer queues.
func TestIRQOfDeviceThatIsDown(t *testing.T) {
	was := []string{"eth0-TxRx-0", "eth0-TxRx-1", "eth0-TxRx-2", "eth0"}
	for _, c := range []struct {
		what string
		now  []string
		open bool
	}{
		{"down", []string{"", "", "", ""}, true},
		{"down, and something else of the card is used", []string{"", "", "", "eth0"}, true},
		{"another device of the card is up", []string{"eth1-TxRx-0", "", "", "eth1"}, true},
		{"up, with fewer queues", []string{"eth0-TxRx-0", "", "", "eth0"}, false},
		{"down, and the kernel gave them back", []string{""}, false},
	} {
		root := vectors(t, was...)
		show := func(names []string) {
			testenv.Must(t, os.WriteFile(filepath.Join(root, "proc/interrupts"), []byte(interruptLines(names...)), 0o644))
			for i := len(names); i < len(was); i++ {
				testenv.Must(t, os.Remove(filepath.Join(root, fmt.Sprintf("sys/bus/pci/devices/0000:00:03.0/msi_irqs/%d", 30+i))))
			}
		}
		irqs, err := host.Reader{Root: root}.CardIRQs("0000:00:03.0")
		testenv.Must(t, err)
		j, tx := openJournal(t, setting.NewSettings(setting.Backends(root)...))
		for _, irq := range irqs[1:3] {
			_, err = tx.Set("irq.affinity", setting.Write{Setting: setting.IRQSetting(irq), Value: setting.Text("7\n")})
			testenv.Must(t, err)
		}
		show(c.now)
		outcomes, err := j.Undo(nil, journal.UndoOptions{})
		testenv.Must(t, err)
		for _, o := range outcomes {
			if c.open != o.Entry.State.Open() || c.open != (o.Err != nil) {
				t.Errorf("%s: it is %s, %v", c.what, o.Entry.State, o.Err)
			}
		}
		if !c.open {
			continue
		}
		show(was)
		undoAll(t, j)
		for i := range irqs {
			if cores, err := os.ReadFile(filepath.Join(root, fmt.Sprintf("proc/irq/%d/smp_affinity_list", 30+i))); err != nil || string(cores) != fmt.Sprintf("%d\n", i) {
				t.Errorf("%s, then up: interrupt %d is on core %q, %v", c.what, i, cores, err)
			}
		}
	}
}

// The key of a journal of before the place was in it still works.
func TestIRQByNameAlone(t *testing.T) {
	settings := setting.NewSettings(setting.Backends(vectors(t, "eth0-TxRx-0", "eth0"))...)
	for key, want := range map[string]string{"0000:00:03.0 eth0": "1\n", "0000:00:03.0 eth0-TxRx-0": "0\n"} {
		if v, err := settings.Read(setting.Setting{Backend: "irq", Key: key}); err != nil || v.String() != want {
			t.Errorf("%s: %q, %v", key, v, err)
		}
	}
	if _, err := settings.Read(setting.Setting{Backend: "irq", Key: "0000:00:04.0 eth0"}); !errors.Is(err, host.ErrGone) {
		t.Errorf("a card that is not there: %v", err)
	}
	for what, files := range map[string][]string{"nothing": nil, "an empty folder": {"sys/bus"}, "a file for a bus's devices": {"sys/bus/pci", "sys/bus/pci/devices"}} {
		root := t.TempDir()
		for i, name := range files {
			if i == 0 {
				testenv.Must(t, os.MkdirAll(filepath.Join(root, name), 0o755))
			} else {
				testenv.Must(t, os.WriteFile(filepath.Join(root, name), nil, 0o644))
			}
		}
		_, err := setting.NewSettings(setting.Backends(root)...).Read(setting.Setting{Backend: "irq", Key: "0000:00:03.0 eth0"})
		if err == nil || errors.Is(err, host.ErrGone) || errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s where the buses are listed: %v", what, err)
		}
	}
}
