package host_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/result"
)

func TestFactsOfFixture(t *testing.T) {
	f, problems := host.Reader{Root: "testdata/vm"}.Facts("m1")
	if len(problems) > 0 {
		t.Errorf("problems: %v", problems)
	}
	for what, pair := range map[string][2]any{
		"machine":      {f.Machine, "m1"},
		"kernel":       {f.Kernel, "6.1.0-18-amd64"},
		"OS":           {f.OS, "Debian GNU/Linux 12 (bookworm)"},
		"CPU":          {f.CPUModel, "Some CPU @ 2.00GHz"},
		"CPUs":         {f.CPUs, 2},
		"hypervisor":   {f.Hypervisor, "QEMU"},
		"emulated":     {f.Emulated, false}, // QEMU with KVM: the CPU is a real one
		"clock source": {f.ClockSource, "tsc"},
		"governor":     {f.Governor, "performance"},
		"congestion":   {f.Congestion, "bbr"},
		"memory":       {f.Memory, int64(4028440 * 1024)},
		"boot":         {f.BootID, "11111111-2222-3333-4444-555555555555"},
		"tcp_rmem":     {f.Sysctls["net.ipv4.tcp_rmem"], "4096 131072 6291456"},
		"budget":       {f.Sysctls["net.core.netdev_budget"], "300"},
		"settings":     {len(f.Sysctls), 3}, // those that are not there are left out
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s is %v, want %v", what, pair[0], pair[1])
		}
	}
}

// Where the CPU cannot be asked, its name tells that it is emulated.
func TestFactsOfEmulated(t *testing.T) {
	f, _ := host.Reader{Root: "testdata/emulated"}.Facts("m1")
	if !f.Emulated || f.CPUModel != "QEMU TCG CPU version 2.5+" || f.Hypervisor != "unknown" {
		t.Errorf("facts of an emulated CPU: %+v", f)
	}
}

// A machine that tells nothing gives facts without figures, and no panic.
func TestFactsOfNothing(t *testing.T) {
	f, _ := host.Reader{Root: t.TempDir()}.Facts("m1")
	if f.CPUs != 0 || f.Kernel != "" || len(f.Sysctls) != 0 {
		t.Errorf("facts from an empty folder: %+v", f)
	}
}

func TestCommand(t *testing.T) {
	r := host.Reader{Root: "testdata/vm"}
	if got, want := r.Command(12), []string{"venturi", "agent", "--machine", "m1"}; !slices.Equal(got, want) {
		t.Errorf("Command = %q, want %q", got, want)
	}
	if got := r.Command(13); got != nil {
		t.Errorf("Command of nobody = %q", got)
	}
}

// The facts of this very machine, in a lab, as a record holds them.
func TestFactsOfLab(t *testing.T) {
	l := testenv.Lab(t, lab.Options{Paths: []string{"vxlan"}})
	m := l.Machines[0]
	f, problems := host.Reader{}.Facts(m.Name, m.Namespaces()...)
	if len(problems) > 0 {
		t.Errorf("problems: %v", problems)
	}
	if f.CPUs < 1 || f.Kernel == "" || f.Memory == 0 || f.BootID == "" || f.Congestion != "reno" {
		t.Errorf("facts are not whole: %+v", f)
	}
	if f.NetfilterRules != 0 || f.Conntrack {
		t.Errorf("%d rules and tracking %v in a bare lab", f.NetfilterRules, f.Conntrack)
	}
	// Some settings are shown only outside of the lab's namespaces.
	for _, name := range []string{"net.core.netdev_max_backlog", "net.core.rmem_max", "net.ipv4.ip_forward"} {
		if f.Sysctls[name] == "" {
			t.Errorf("setting %s is missing", name)
		}
	}
	kinds := map[string]string{}
	for _, d := range f.Devices {
		kinds[d.Namespace+" "+d.Name] = d.Kind
		if d.MTU == 0 || d.Qdisc == "" || len(d.Features) == 0 {
			t.Errorf("device is not whole: %+v", d)
		}
	}
	for device, kind := range map[string]string{
		"m1 wire0": "veth", "m1 flannel.1": "vxlan", "m1 cni0": "bridge", "m1/vxlan eth0": "veth",
	} {
		if kinds[device] != kind {
			t.Errorf("%s is %q, want %s (devices: %v)", device, kinds[device], kind, kinds)
		}
	}
}

// Who has no rights over a network is told that, and not that it has no rules.
func TestFactsWithoutRights(t *testing.T) {
	var f result.Facts
	var problems []error
	var err error
	done := make(chan bool)
	go func() {
		defer close(done)
		runtime.LockOSThread() // the thread ends with what it has given up
		none := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var sets [2]unix.CapUserData
		if err = unix.Capset(&none, &sets[0]); err == nil {
			f, problems = host.Reader{}.Facts("m1")
		}
	}()
	<-done
	if err != nil {
		t.Fatal(err)
	}
	if said := fmt.Sprint(problems); !f.RulesHidden || said != "[nftables rules cannot be counted without CAP_NET_ADMIN]" {
		t.Errorf("hidden: %v; problems: %v", f.RulesHidden, said)
	}
}
