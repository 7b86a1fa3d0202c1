package knob_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/verr"
)

// nearFile tells which cores are near the card.
const nearFile = "/sys/devices/pci0/0000:00:03.0/local_cpulist"

// card is a machine of four cores whose eth0 is of virtio, with interrupts from
// a number on.
func card(t *testing.T, first int) bench {
	t.Helper()
	files := map[string]string{"/sys/devices/system/cpu/online": "0-3\n", "/proc/interrupts": "            CPU0       CPU1\n"}
	for i, action := range []string{"virtio2-config", "virtio2-input.0", "virtio2-output.0", "virtio2-input.1", "virtio2-output.1"} {
		n := first + i
		files["/proc/interrupts"] += fmt.Sprintf(" %d:    5   7   PCI-MSIX-0000:00:03.0   %d-edge      %s\n", n, i, action)
		files[fmt.Sprintf("/proc/irq/%d/smp_affinity_list", n)] = "0-3\n"
		files[fmt.Sprintf("/proc/irq/%d/effective_affinity_list", n)] = "0\n"
		files[fmt.Sprintf("/sys/devices/pci0/0000:00:03.0/msi_irqs/%d", n)] = "msix\n"
	}
	files[nearFile] = "2-3\n"
	files["/sys/devices/pci0/0000:00:03.0/virtio2/net/eth0/mtu"] = "1500\n"
	files["/sys/devices/virtual/net/lo/mtu"] = "65536\n"
	b := fixture(t, files)
	link := func(to, name string) {
		name = filepath.Join(b.m.Root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, name); err != nil {
			t.Fatal(err)
		}
	}
	link("../../../devices/pci0/0000:00:03.0", "sys/bus/pci/devices/0000:00:03.0")
	link("../../devices/pci0/0000:00:03.0/virtio2/net/eth0", "sys/class/net/eth0")
	link("../../../virtio2", "sys/devices/pci0/0000:00:03.0/virtio2/net/eth0/device")
	return b
}

func TestIRQAffinity(t *testing.T) {
	b, on := card(t, 37), knob.Target{Device: "eth0"}
	for _, c := range []struct{ value, shows string }{
		{"2-3", "virtio2-config=0-3 virtio2-input.0=2 virtio2-output.0=2 virtio2-input.1=3 virtio2-output.1=3"},
		{"near", "virtio2-config=0-3 virtio2-input.0=2 virtio2-output.0=2 virtio2-input.1=3 virtio2-output.1=3"},
		{"1", "virtio2-config=0-3 virtio2-input.0=1 virtio2-output.0=1 virtio2-input.1=1 virtio2-output.1=1"},
		{"virtio2-config=0,1 virtio2-input.1=3", "virtio2-config=0-1 virtio2-input.0=0-3 virtio2-output.0=0-3 virtio2-input.1=3 virtio2-output.1=0-3"},
	} {
		b.turns("irq.affinity", on, c.value, c.shows)
	}
	b.refused("irq.affinity", on, verr.Usage, "4", "", "off", "virtio2-input.7=0", "virtio2-input.0=off", "a-b")
	b.refused("irq.affinity", knob.Target{Device: "lo"}, verr.Missing, "1")
	b.refused("irq.affinity", knob.Target{}, verr.Usage, "1")
	down := card(t, 37)
	if err := os.WriteFile(filepath.Join(down.m.Root, "proc/interrupts"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := down.set("irq.affinity", on, "1"); verr.Code(err) != verr.Missing || !strings.Contains(err.Error(), "while the device is down") {
		t.Errorf("set while the device is down: %v", err)
	}
	for near, want := range map[string]struct{ inputs, trials string }{
		"2-3\n": {"2 3", "near 0-3 1-3"},
		"0-2\n": {"1 2", "near 0-3"}, // a queue each without the first
		"0-1\n": {"0 1", "near 1-3"},
		"7\n":   {"1 2", "near 0-3"}, // none of them is on
	} {
		if err := os.WriteFile(filepath.Join(b.m.Root, nearFile), []byte(near), 0o644); err != nil {
			t.Fatal(err)
		}
		inputs := strings.Fields(want.inputs)
		b.turns("irq.affinity", on, "near", fmt.Sprintf("virtio2-config=0-3 virtio2-input.0=%[1]s virtio2-output.0=%[1]s virtio2-input.1=%[2]s virtio2-output.1=%[2]s", inputs[0], inputs[1]))
		values, err := entry(t, "irq.affinity").Knob.(knob.Ranger).Range(b.m, on)
		if got := strings.Join(values, " "); err != nil || got != want.trials {
			t.Errorf("near %q: worth a trial are %q, want %q (%v)", near, got, want.trials, err)
		}
	}
}

// Interrupts are not dealt to cores that the boot line keeps for programs, unless there are
// no others.
func TestIRQAvoidsIsolatedCores(t *testing.T) {
	for _, c := range []struct{ isolated, ticks, inputs, trials string }{
		{"2-3\n", " (null)\n", "0 1", "near 1"}, // all that are near
		{"3\n", "\n", "2 2", "near 0-2 1-2"},
		{"\n", "0,2\n", "3 3", "near 1,3"},
		{"1-3\n", "\n", "0 0", "near"},
		{"0-3\n", "0-3\n", "2 3", "near 0-3 1-3"},
	} {
		b, on := card(t, 37), knob.Target{Device: "eth0"}
		for name, text := range map[string]string{"isolated": c.isolated, "nohz_full": c.ticks} {
			if err := os.WriteFile(filepath.Join(b.m.Root, "sys/devices/system/cpu", name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		values, err := entry(t, "irq.affinity").Knob.(knob.Ranger).Range(b.m, on)
		if got := strings.Join(values, " "); err != nil || got != c.trials {
			t.Errorf("%+v: worth a trial are %q (%v)", c, got, err)
		}
		inputs := strings.Fields(c.inputs)
		b.turns("irq.affinity", on, "near", fmt.Sprintf("virtio2-config=0-3 virtio2-input.0=%[1]s virtio2-output.0=%[1]s virtio2-input.1=%[2]s virtio2-output.1=%[2]s", inputs[0], inputs[1]))
	}
}

// The kernel takes cores that are off, and for RPS those that are isolated, out of a mask:
// what would not be as it was set is not offered, and refused.
func TestMasksOfCores(t *testing.T) {
	on := knob.Target{Device: "lo"}
	for _, c := range []struct{ online, isolated, trials, all, refused string }{
		{"0,2", "2", "", "0", "0,2"},
		{"0,2,4", "", "0,2,4 2,4", "0,2,4", "0-2"},
		{"0-3", "1", "0,2-3 2-3", "0,2-3", "rx-0=1"},
		{"0-3", "0-3", "", "", "5"},
	} {
		b := fixture(t, map[string]string{"/sys/devices/system/cpu/online": c.online + "\n", "/sys/devices/system/cpu/isolated": c.isolated + "\n"})
		values, err := entry(t, "net.rps").Knob.(knob.Ranger).Range(b.m, on)
		if got := strings.Join(values, " "); err != nil || got != c.trials {
			t.Errorf("%+v: worth a trial are %q (%v)", c, got, err)
		}
		for _, value := range append(values, "off") {
			if _, err := entry(t, "net.rps").Plan(b.m, on, value); err != nil {
				t.Error(err)
			}
		}
		refused := []string{c.refused}
		if c.all == "" {
			refused = append(refused, "all")
		} else {
			named, err := entry(t, "net.rps").Plan(b.m, on, c.all)
			testenv.Must(t, err)
			if all, err := entry(t, "net.rps").Plan(b.m, on, "all"); err != nil || !reflect.DeepEqual(all, named) {
				t.Errorf("%+v: all gives %+v (%v), want %+v", c, all, err, named)
			}
		}
		for _, value := range refused {
			if _, err := entry(t, "net.rps").Plan(b.m, on, value); verr.Code(err) != verr.Usage {
				t.Errorf("%+v: %s: %v", c, value, err)
			}
		}
	}
}

// Interrupts get other numbers when a driver starts anew; an undo finds them by
// what they are for.
func TestIRQUndoneByAction(t *testing.T) {
	b, on := card(t, 37), knob.Target{Device: "eth0"}
	if err := b.set("irq.affinity", on, "2"); err != nil {
		t.Fatal(err)
	}
	later := card(t, 50)
	for _, n := range []int{51, 52, 53, 54} {
		if err := os.WriteFile(filepath.Join(later.m.Root, fmt.Sprintf("proc/irq/%d/smp_affinity_list", n)), []byte("2"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	later.options.Folder = b.options.Folder
	later.undo()
	if got := later.get("irq.affinity", on); got != "0-3" {
		t.Errorf("undone: %s", got)
	}
}

// The kernel refuses to move an interrupt that it manages; the others are put
// back.
func TestManagedIRQ(t *testing.T) {
	b, on := card(t, 37), knob.Target{Device: "eth0"}
	managed := filepath.Join(b.m.Root, "proc/irq/41/smp_affinity_list")
	if err := os.Remove(managed); err != nil {
		t.Fatal(err)
	}
	// What is written to this file comes to nothing, as with the kernel's.
	if err := os.Symlink("/dev/null", managed); err != nil {
		t.Fatal(err)
	}
	if err := b.set("irq.affinity", on, "3"); err == nil {
		t.Error("an interrupt that cannot be moved was moved")
	}
	for n := 37; n < 41; n++ {
		if text, err := os.ReadFile(filepath.Join(b.m.Root, fmt.Sprintf("proc/irq/%d/smp_affinity_list", n))); err != nil || string(text) != "0-3\n" {
			t.Errorf("interrupt %d goes to %q (%v)", n, text, err)
		}
	}
}
