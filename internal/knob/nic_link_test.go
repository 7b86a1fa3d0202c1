package knob_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/verr"
)

// space is a namespace with a veth pair of four queues each, va and vb, that are up.
func space(t *testing.T) (netns string, ip func(args ...string)) {
	t.Helper()
	w, err := netcfg.Owned(testenv.Claim(t))
	if err != nil {
		t.Fatal(err)
	}
	n, err := w.Create(w.Name("m1"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	ip = func(args ...string) {
		t.Helper()
		tool := "ip"
		if args[0] == "tc" {
			tool, args = "tc", args[1:]
		}
		if out, err := exec.Command(tool, append([]string{"-n", n.Name()}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("%s %v: %v: %s", tool, args, err, out)
		}
	}
	ip("link", "add", "name", "va", "numtxqueues", "4", "numrxqueues", "4", "type", "veth", "peer", "name", "vb", "numtxqueues", "4", "numrxqueues", "4")
	ip("link", "set", "va", "up")
	ip("link", "set", "vb", "up")
	return n.Path(), ip
}

// flowTable is how many flows the machine remembers.
const flowTable = "proc/sys/net/core/rps_sock_flow_entries"

// onRoot is this machine, but for what belongs to it as a whole: that is below a
// folder.
func onRoot(t *testing.T) bench {
	t.Helper()
	b := fixture(t, map[string]string{
		"/sys/devices/system/cpu/online":             "0-1\n",
		"/" + flowTable:                              "0\n",
		"/proc/sys/net/core/netdev_max_backlog":      "1000\n",
		"/sys/devices/system/cpu/smt/control":        "off\n",
		"/sys/devices/system/cpu/unrelated/whatever": "1\n",
	})
	return b
}

// everything is all that a device can be set to, as text.
func everything(t *testing.T, b bench, on knob.Target) string {
	t.Helper()
	scope, err := on.Scope()
	if err != nil {
		t.Fatal(err)
	}
	settings, err := setting.DeviceSettings(scope)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, s := range settings {
		v, err := b.m.Settings.Read(s)
		if err != nil {
			t.Fatal(err)
		}
		text.WriteString(s.String() + " = " + v.String() + "\n")
	}
	return text.String()
}

func TestDeviceNumbersAndQueues(t *testing.T) {
	netns, _ := space(t)
	b, on := onRoot(t), knob.Target{Netns: netns, Device: "va"}
	if err := os.WriteFile(filepath.Join(b.m.Root, flowTable), []byte("32768\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	before := everything(t, b, on)
	for _, c := range []struct{ knob, value, shows string }{
		{"nic.mtu", "9000", "9000"},
		{"nic.mtu", "1300", "1300"},
		{"nic.txqueuelen", "500", "500"},
		{"nic.big_tcp", "196608", "gso=196608,gro=196608,gso_ipv4=196608,gro_ipv4=196608"},
		{"nic.big_tcp", "gso=30000", "gso=30000,gro=65536,gso_ipv4=65536,gro_ipv4=65536"},
		{"nic.big_tcp", "gso_ipv4=40000,gro=50000", "gso=65536,gro=50000,gso_ipv4=40000,gro_ipv4=65536"},
		{"nic.defer_irq", "irqs=10,timeout=20000", "irqs=10,timeout=20000"},
		{"nic.defer_irq", "irqs=3", "irqs=3,timeout=0"},
		{"nic.qdisc", "pfifo", "pfifo"},
		{"nic.qdisc", "pfifo_fast", "pfifo_fast"},
		{"net.rps", "0-1", "0-1"},
		{"net.rps", "1", "1"},
		{"net.rps", "all", host.FormatNumbers(knob.SharedCores(b.m))},
		{"net.rps", "rx-0=0 rx-3=1", "rx-0=0 rx-1=off rx-2=off rx-3=1"},
		{"net.rfs", "32768", "32768"},
		{"net.rfs", "5", "8"},
		{"net.xps", "0-1", "tx-0=0 tx-1=1 tx-2=0 tx-3=1"},
		{"net.xps", "tx-1=0-1", "tx-0=off tx-1=0-1 tx-2=off tx-3=off"},
		{"net.xps", "rxqs", "rxqs"},
		{"net.xps", "rxqs tx-0=1-2", "rxqs tx-0=1-2 tx-1=off tx-2=off tx-3=off"},
	} {
		if c.knob == "nic.big_tcp" && !strings.Contains(b.get(c.knob, on), "gso_ipv4") {
			continue // before Linux 6.3 there is one for both
		}
		b.turns(c.knob, on, c.value, c.shows)
		if after := everything(t, b, on); after != before {
			t.Fatalf("%s=%s and its undo left\n%s, not\n%s", c.knob, c.value, after, before)
		}
	}
}

func TestDeviceRefusals(t *testing.T) {
	netns, ip := space(t)
	ip("link", "add", "br0", "type", "bridge")
	b, on := onRoot(t), knob.Target{Netns: netns, Device: "va"}
	before := everything(t, b, on)
	b.refused("nic.mtu", on, verr.Usage, "67", "70000", "1200", "many", "-1") // IPv6 wants 1280
	b.refused("nic.mtu", knob.Target{Netns: netns, Device: "br0"}, verr.Usage, "1400")
	b.refused("nic.txqueuelen", on, verr.Usage, "0", "x")
	b.refused("nic.big_tcp", on, verr.Usage, "4294967295", "100", "gso=600000", "gro=600000", "size=65536", "gso=1,gso=2")
	b.refused("nic.defer_irq", on, verr.Usage, "5", "irqs=-1", "irqs=a", "rings=5")
	b.refused("nic.qdisc", on, verr.Usage, "htb", "")
	b.refused("net.rps", on, verr.Usage, "2", "0-", "rx-7=0", "rx-0=9", "x")
	b.refused("net.rfs", on, verr.Usage, "-1", "x", "99999999")
	b.refused("net.xps", on, verr.Usage, "5", "tx-0=a", "rxqs tx-0=4", "rx-0=1")
	ip("tc", "qdisc", "replace", "dev", "va", "root", "handle", "5:", "htb")
	b.refused("nic.qdisc", on, verr.Missing, "pfifo")
	ip("tc", "qdisc", "del", "dev", "va", "root")
	if after := everything(t, b, on); after != before {
		t.Errorf("refusing changed\n%s to\n%s", before, after)
	}
	ip("-6", "route", "add", "2001:db8::/64", "dev", "va", "mtu", "1400")
	b.refused("nic.mtu", on, verr.Usage, "1300")
	ip("link", "add", "v0", "type", "veth", "peer", "v1")
	b.refused("nic.qdisc", knob.Target{Netns: netns, Device: "v0"}, verr.Missing, "pfifo") // it was never up
	if _, err := entry(t, "net.rps").Get(b.m, knob.Target{Netns: netns}); verr.Code(err) != verr.Usage {
		t.Errorf("without a device: %v", err)
	}
}

// The table of flows is the machine's: a device's is not set without it, nor is it
// set for a device, and where it is gone that is told.
func TestRFSNeedsTheTable(t *testing.T) {
	netns, _ := space(t)
	b, on := onRoot(t), knob.Target{Netns: netns, Device: "va"}
	b.refused("net.rfs", on, verr.Missing, "1024")
	if values, err := entry(t, "net.rfs").Knob.(knob.Ranger).Range(b.m, on); err != nil || len(values) != 0 {
		t.Errorf("worth a trial without the table: %q, %v", values, err)
	}
	if err := b.set("net.rfs_table", knob.Target{}, "1024"); err != nil {
		t.Fatal(err)
	}
	b.refused("net.rfs", on, verr.Missing, "2048")
	if err := b.set("net.rfs", on, "1024"); err != nil {
		t.Fatal(err)
	}
	table := filepath.Join(b.m.Root, flowTable)
	if text, err := os.ReadFile(table); err != nil || strings.TrimSpace(string(text)) != "1024" {
		t.Errorf("the table has %q (%v), want 1024", text, err)
	}
	if err := os.WriteFile(table, []byte("0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := entry(t, "net.rfs").Get(b.m, on)
	if err != nil || r.Value != "1024" || r.Effective != "off" {
		t.Errorf("without the table: %+v, %v", r, err)
	}
}

// Threads for NAPI, of a device with GRO on; what single queues had of their own
// comes back too.
func TestThreadedNAPI(t *testing.T) {
	netns, _ := space(t)
	b, on := onRoot(t), knob.Target{Netns: netns, Device: "va"}
	testenv.InNetns(t, netns, func() error {
		return exec.Command("ethtool", "-K", "va", "gro", "on").Run()
	})
	b.turns("nic.napi_threaded", on, "on", "on")
	b.refused("nic.napi_threaded", on, verr.Usage, "yes")
	scope, err := on.Scope()
	if err != nil {
		t.Fatal(err)
	}
	own, err := setting.NAPISettings(scope, "gro_flush_timeout")
	if err != nil {
		t.Fatal(err)
	}
	if len(own) == 0 {
		t.Skip("this kernel has no settings of single NAPIs")
	}
	if err := b.m.Settings.Write(own[0], setting.Text("7000")); err != nil {
		t.Fatal(err)
	}
	before := everything(t, b, on)
	b.turns("nic.defer_irq", on, "irqs=10,timeout=20000", "irqs=10,timeout=20000")
	b.turns("nic.irq_suspend", on, "20000000", "20000000")
	b.turns("nic.irq_suspend", on, "napi-0=8000000000", "8000000000") // of more than 32 bits
	b.refused("nic.irq_suspend", on, verr.Usage, "-1", "x", "napi-9=1", "9999999999999")
	b.refused("nic.irq_suspend", knob.Target{Device: "lo"}, verr.Missing, "1")
	if after := everything(t, b, on); after != before {
		t.Errorf("undone:\n%s, want\n%s", after, before)
	}
	if v, err := b.m.Settings.Read(own[0]); err != nil || v.String() != "7000" {
		t.Errorf("the NAPI's own number is %q (%v), want 7000", v, err)
	}
}

// What is on top of a device follows its MTU, in whatever namespace, and is put
// back with it.
func TestMTUOfWhatIsOnTop(t *testing.T) {
	netns, ip := space(t)
	ip("link", "add", "br0", "type", "bridge")
	ip("link", "set", "va", "master", "br0")
	ip("link", "set", "br0", "up")
	ip("link", "add", "mv", "link", "vb", "type", "macvlan")
	ip("link", "add", "mv2", "link", "mv", "type", "macvlan")
	b := onRoot(t)
	state := func() (all string) {
		for _, device := range []string{"va", "vb", "br0", "mv", "mv2"} {
			all += device + " " + b.get("nic.mtu", knob.Target{Netns: netns, Device: device}) + "\n"
		}
		return all
	}
	before := state()
	for _, device := range []string{"va", "vb"} {
		b.turns("nic.mtu", knob.Target{Netns: netns, Device: device}, "1400", "1400")
		if after := state(); after != before {
			t.Errorf("undone:\n%s, want\n%s", after, before)
		}
	}
}
