package knob_test

import (
	"errors"
	"net"
	"net/netip"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/ovn"
	"github.com/venturi-net/venturi/internal/ovs"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/verr"
)

// tool runs one of OVN's own programs on a database.
func tool(t *testing.T, program, remote string, args ...string) string {
	t.Helper()
	out, err := exec.Command(program, append([]string{"--no-leader-only", "--db=" + remote}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v: %s", program, args, err, out)
	}
	return string(out)
}

// onCentral is an OVN of one pod, with a load balancer or without.
func onCentral(t *testing.T, services map[netip.AddrPort][]netip.AddrPort) (ovs.Runtime, *ovn.Central) {
	t.Helper()
	p, _ := testenv.OVSRuntime(t, slices.Concat(ovs.Needs(), ovn.Needs())...)
	pod := ovn.Port{Name: "m1.pod-0", MAC: net.HardwareAddr{10, 0, 0, 0, 0, 1}, Addr: netip.MustParseAddr("10.244.0.2")}
	c, err := ovn.StartCentral(t.Context(), p, ovn.Network{Ports: []ovn.Port{pod}, Services: services})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return p, c
}

func TestLoadBalancers(t *testing.T) {
	p, _ := onCentral(t, map[netip.AddrPort][]netip.AddrPort{
		netip.MustParseAddrPort("10.96.0.1:80"): {netip.MustParseAddrPort("10.244.0.2:80")},
	})
	b, on := benchOn(t, ""), knob.Target{Switch: filepath.Join(p.Folder, "nb.sock")}
	nb := func(args ...string) string { return tool(t, "ovn-nbctl", p.Remote("nb"), args...) }
	before := nb("ls-lb-list", "ovn-default")
	if !strings.Contains(before, "10.96.0.1:80") {
		t.Fatalf("the switch balances %q", before)
	}
	nb("ls-add", "without")
	if got := b.get("ovn.lb", on); got != "on" {
		t.Fatalf("it is %s", got)
	}
	b.refused("ovn.lb", on, verr.Usage, "perhaps")
	late := b
	late.options.OnPoint = func(p journal.CrashPoint) {
		if p == journal.PointRecorded {
			nb("lb-add", "late", "10.96.0.2:80", "10.244.0.2:80")
			nb("ls-lb-add", "ovn-default", "late")
		}
	}
	if err := late.set("ovn.lb", on, "off"); !errors.Is(err, setting.ErrChanged) {
		t.Errorf("a balancer that came just then: %v", err)
	}
	if left := nb("ls-lb-list", "ovn-default"); !strings.Contains(left, "10.96.0.2:80") || !strings.Contains(left, "10.96.0.1:80") {
		t.Errorf("then the switch balances %q", left)
	}
	nb("lb-del", "late")
	if err := b.set("ovn.lb", on, "off"); err != nil {
		t.Fatal(err)
	}
	if left := nb("ls-lb-list", "ovn-default"); left != "" {
		t.Errorf("off, the switch balances %q", left)
	}
	b.refused("ovn.lb", on, verr.Usage, "on")
	b.undo()
	if after := nb("ls-lb-list", "ovn-default"); after != before {
		t.Errorf("undone, it balances %q, want %q", after, before)
	}
	none, _ := onCentral(t, nil)
	b.refused("ovn.lb", knob.Target{Switch: filepath.Join(none.Folder, "nb.sock")}, verr.Missing, "off")
}

// A machine tells the others, by the southbound database, how to send to it.
func TestEncapChecksum(t *testing.T) {
	p, c := onCentral(t, nil)
	s, on := switchIn(t, p)
	if err := s.AddBridges(t.Context(), ovs.Bridge{Name: "br-int", Datapath: ovs.Daemon}); err != nil {
		t.Fatal(err)
	}
	_, err := ovn.StartController(t.Context(), p, s, ovn.Chassis{
		Name: "m1", Remote: c.Remote(), Bridge: "br-int", Datapath: ovs.Daemon, EncapIP: netip.MustParseAddr("10.222.0.1"), Csum: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	// says waits until the others are told what they shall be told.
	says := func(want string) {
		t.Helper()
		for start := time.Now(); ; time.Sleep(20 * time.Millisecond) {
			told := tool(t, "ovn-sbctl", c.Remote(), "--bare", "--columns=options", "find", "encap", "ip=10.222.0.1")
			if strings.Contains(told, "csum="+want) {
				return
			}
			if time.Since(start) > time.Minute {
				t.Fatalf("the others are told %q, want csum=%s", told, want)
			}
		}
	}
	says("true")
	tool(t, "ovn-sbctl", c.Remote(), "chassis-add", "m2", "geneve", "10.222.0.2")
	tool(t, "ovn-sbctl", c.Remote(), "set", "encap", strings.TrimSpace(tool(t, "ovn-sbctl", c.Remote(), "--bare", "--columns=_uuid", "find", "encap", "ip=10.222.0.2")), "options:csum=true")
	b := benchOn(t, "")
	if err := b.set("ovn.encap_csum", on, "off"); err != nil {
		t.Fatal(err)
	}
	says("false")
	for start := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		r, err := entry(t, "ovn.encap_csum").Get(b.m, on)
		if err != nil || r.Value != "off" || time.Since(start) > time.Minute {
			t.Fatalf("%+v, %v", r, err)
		}
		if strings.Contains(r.Note, "1 with a checksum [ovn-m2-0]") {
			break
		}
	}
	b.undo()
	says("true")
	if got := b.get("ovn.encap_csum", on); got != "on" {
		t.Errorf("undone, it is %s", got)
	}
}
