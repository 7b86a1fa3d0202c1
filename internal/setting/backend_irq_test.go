package setting_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/testenv"
)

// vectors is a machine whose card has interrupts from number 30 on, in the order
// of their places. What may handle each of them is the core of its place.
func vectors(t *testing.T, names ...string) (root string) {
	t.Helper()
	files := map[string]string{"proc/interrupts": "            CPU0\n"}
	for i, name := range names {
		files["proc/interrupts"] += fmt.Sprintf(" %d:  5  PCI-MSIX-0000:00:03.0  %d-edge  %s\n", 30+i, i, name)
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
}
