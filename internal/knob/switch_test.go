package knob_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/knob/table"
	"github.com/venturi-net/venturi/internal/ovs"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/verr"
)

// onSwitch is a switch without bridges.
func onSwitch(t *testing.T) (*ovs.Switch, knob.Target) {
	t.Helper()
	p, _ := testenv.OVSRuntime(t, ovs.Needs()...)
	return switchIn(t, p)
}

func switchIn(t *testing.T, p ovs.Runtime) (*ovs.Switch, knob.Target) {
	t.Helper()
	s, err := ovs.Start(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, knob.Target{Switch: filepath.Join(p.Folder, "conf.sock")}
}

func TestSwitchKnobs(t *testing.T) {
	s, on := onSwitch(t)
	b := benchOn(t, "")
	b.refused("ovs.emc", on, verr.Missing, "emc=5") // no bridge
	if err := s.AddBridges(t.Context(), ovs.Bridge{Name: "br0", Datapath: ovs.Daemon}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ knob, value, shows string }{
		{"ovs.threads", "revalidators=3", "handlers=default,revalidators=3"},
		{"ovs.cache", "400000", "flow-limit=400000,max-idle=default,max-revalidator=default,min-revalidate-pps=default"},
		{"ovs.cache", "max-idle=30000, min-revalidate-pps=9", "flow-limit=default,max-idle=30000,max-revalidator=default,min-revalidate-pps=9"},
		{"ovs.cache", "default", "flow-limit=default,max-idle=default,max-revalidator=default,min-revalidate-pps=default"},
		{"ovs.emc", "emc=0,smc=on", "emc=0,smc=on"},
		{"ovs.hw_offload", "on", "offload=on,tc-policy=default"},
		{"ovs.hw_offload", "tc-policy=skip_hw", "offload=default,tc-policy=skip_hw"},
		{"ovn.encap_csum", "off", "off"},
	} {
		b.turns(c.knob, on, c.value, c.shows)
	}
	if err := s.Configure(t.Context(), map[string]string{"flow-limit": "5", "hw-offload": "perhaps"}); err != nil {
		t.Fatal(err)
	}
	b.turns("ovs.cache", on, "default", "flow-limit=default,max-idle=default,max-revalidator=default,min-revalidate-pps=default")
	b.turns("ovs.hw_offload", on, "off", "offload=off,tc-policy=default")
	if got := b.get("ovs.hw_offload", on); got != "offload=perhaps,tc-policy=default" {
		t.Errorf("what nobody understands is now %s", got)
	}
	b.refused("ovs.cache", on, verr.Usage, "many", "flow-limit=-1", "flow=5", "max-idle=1")
	b.refused("ovs.hw_offload", on, verr.Usage, "maybe", "tc-policy=on")
	b.refused("ovs.cache", knob.Target{Switch: on.Switch + "x"}, verr.Missing, "5")

	worth, err := entry(t, "ovs.cache").Knob.(knob.Ranger).Range(b.m, on)
	if err != nil || strings.Join(worth, " ") != "flow-limit=400000 max-idle=30000" {
		t.Errorf("worth a trial: %q, %v", worth, err)
	}
	if worth, err = entry(t, "ovn.encap_csum").Knob.(knob.Ranger).Range(b.m, on); err != nil || strings.Join(worth, " ") != "off on" {
		t.Errorf("worth a trial: %q, %v", worth, err)
	}
}

// What the switch does not do is undone and told: here a daemon that hangs.
func TestThreadsWithoutEffect(t *testing.T) {
	p, children := testenv.OVSRuntime(t, ovs.Needs()...)
	s, on := switchIn(t, p)
	b := benchOn(t, "")
	if err := s.AddBridges(t.Context(), ovs.Bridge{Name: "br0", Datapath: ovs.Daemon}); err != nil {
		t.Fatal(err)
	}
	b.turns("ovs.threads", on, "handlers=3", "handlers=3,revalidators=default")
	// The daemon replaces its threads when their number changes. Without any it would count as idle.
	for end := time.Now().Add(testenv.Timeout); ; time.Sleep(10 * time.Millisecond) {
		handlers, revalidators, err := ovs.Threads(on.Switch)
		if err == nil && handlers > 0 && revalidators > 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("after %v the daemon has %d handlers and %d revalidators: %v", testenv.Timeout, handlers, revalidators, err)
		}
	}
	daemon := (*children)[1].Pid
	if err := unix.Kill(daemon, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	err := b.set("ovs.threads", on, "7")
	if err == nil || !strings.Contains(err.Error(), "is in effect") {
		t.Errorf("error is %v, want what is in effect", err)
	}
	if err := unix.Kill(daemon, unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if got := b.get("ovs.threads", on); got != "handlers=default,revalidators=default" {
		t.Errorf("it is left at %s", got)
	}
}

// Obsolete advice is answered with what to do instead.
func TestObsolete(t *testing.T) {
	for _, name := range []string{"ovs.kmod_simd", "ovs.stt", "kubeovn.fastpath"} {
		e, err := table.Find(name)
		if verr.Code(err) != verr.Missing || e.Knob != nil || !strings.Contains(err.Error(), "obsolete") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
