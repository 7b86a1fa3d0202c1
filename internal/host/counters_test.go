package host_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/testenv"
)

// fixture writes files below a folder that plays the machine's root.
func fixture(t *testing.T, files map[string]string) host.Reader {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		file := filepath.Join(root, name)
		testenv.Must(t, os.MkdirAll(filepath.Dir(file), 0o755))
		testenv.Must(t, os.WriteFile(file, []byte(text), 0o644))
	}
	return host.Reader{Root: root}
}

// CPU 1 is off: the files leave it out, each in its own way.
func TestCPUCounters(t *testing.T) {
	r := fixture(t, map[string]string{
		"proc/stat": "cpu  30 0 30 300 0 0 12 3 0 0\ncpu0 10 0 10 100 1 2 4 1 0 0\ncpu2 20 0 20 200 0 0 8 2 5 5\nintr 1 2 3\nctxt 5\n",
		"proc/net/softnet_stat": "0000000a 00000001 00000002 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000\n" +
			"ffffffff 00000003 00000004 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000002 00000000 00000000\n",
		"proc/softirqs": "                    CPU0       CPU2\n          HI:          1          2\n      NET_RX:        100        200\n",
	})
	want := map[int]host.CPUCounters{
		0: {Total: 128, Softirq: 4, Steal: 1, Packets: 10, Dropped: 1, Squeezed: 2, NetRX: 100},
		2: {Total: 250, Softirq: 8, Steal: 2, Packets: 1<<32 - 1, Dropped: 3, Squeezed: 4, NetRX: 200},
	}
	if got := r.CPUCounters(); !reflect.DeepEqual(got, want) {
		t.Errorf("counters %+v, want %+v", got, want)
	}
}

// Kernels before 5.10 do not say whose line of softnet_stat it is.
func TestSoftnetOfOldKernels(t *testing.T) {
	r := fixture(t, map[string]string{"proc/net/softnet_stat": "00000001 00000000 00000000 00000000 00000000\n00000002 00000005 00000000 00000000 00000000\n"})
	if got := r.CPUCounters(); got[0].Packets != 1 || got[1].Packets != 2 || got[1].Dropped != 5 {
		t.Errorf("counters %+v", got)
	}
}

func TestProtocols(t *testing.T) {
	r := fixture(t, map[string]string{"proc/thread-self/net/snmp": "Tcp: RtoMin MaxConn OutSegs RetransSegs InCsumErrors\nTcp: 200 -1 70 5 3\nUdp: InDatagrams InCsumErrors\nUdp: 9 1\n"})
	got := r.Protocols()
	for name, want := range map[string]uint64{"Tcp/OutSegs": 70, "Tcp/RetransSegs": 5, "Tcp/InCsumErrors": 3, "Udp/InCsumErrors": 1} {
		if got[name] != want {
			t.Errorf("%s is %d, want %d", name, got[name], want)
		}
	}
	if _, there := got["Tcp/MaxConn"]; there {
		t.Error("what is below zero is no counter")
	}
}

// A virtio card's interrupts belong to the PCI device above it.
func TestIRQs(t *testing.T) {
	r := fixture(t, map[string]string{
		"sys/devices/pci0/msi_irqs/30":                            "msix\n",
		"sys/devices/pci0/msi_irqs/31":                            "msix\n",
		"sys/devices/pci0/msi_irqs/32":                            "msix\n",
		"sys/devices/pci0/virtio0/uevent":                         "",
		"sys/class/net/eth0/ifindex":                              "2\n",
		"proc/interrupts":                                         "           CPU0       CPU1\n 31:   1  2  PCI-MSIX  virtio0-output.0\n 30:   7  8  PCI-MSIX  virtio0-input.0\nNMI:   0  0  Non-maskable interrupts\n",
		"proc/irq/30/smp_affinity_list":                           "0\n",
		"sys/kernel/irq/30/hwirq":                                 "98305\n", // 48<<11 + 1, as older kernels count
		"proc/irq/31/smp_affinity_list":                           "0-1\n",
		"sys/devices/system/cpu/cpufreq/policy0/scaling_governor": "powersave\n",
		"sys/devices/system/cpu/cpufreq/policy1/scaling_governor": "performance\n",
		"proc/modules":                                            "openvswitch 1 0 - Live 0x0 (O)\nvxlan 1 0 - Live 0x0\n",
		"sys/module/openvswitch/taint":                            "OE\n",
		"proc/12/comm":                                            "tuned\n",
		"proc/9/comm":                                             "tuned\n",
		"proc/13/comm":                                            "bash\n",
	})
	testenv.Must(t, os.Symlink(filepath.Join(r.Root, "sys/devices/pci0/virtio0"), filepath.Join(r.Root, "sys/class/net/eth0/device")))
	want := []host.IRQ{
		{Card: "pci0", Index: 1, Number: 30, Name: "virtio0-input.0", CPUs: "0"},
		{Card: "pci0", Index: -1, Number: 31, Name: "virtio0-output.0", CPUs: "0-1"},
	}
	if got, err := r.IRQs("", "eth0"); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("interrupts %+v, %v, want %+v", got, err, want)
	}
	if got, err := r.IRQs("", "lo"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("interrupts of a device without hardware: %+v, %v", got, err)
	}
	if got := r.Governors(); !reflect.DeepEqual(got, map[string]int{"powersave": 1, "performance": 1}) {
		t.Errorf("governors %v", got)
	}
	if got := r.Modules(); !reflect.DeepEqual(got, map[string]bool{"openvswitch": true, "vxlan": false}) {
		t.Errorf("modules %v", got)
	}
	if got := r.Running("tuned", "irqbalance"); !reflect.DeepEqual(got, map[string]int{"tuned": 9}) {
		t.Errorf("running %v", got)
	}
}
