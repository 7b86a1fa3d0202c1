package tune

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/knob/table"
	"github.com/venturi-net/venturi/internal/search"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/verr"
)

// Every step of every profile makes sense: its knob is in the table, it can be
// assigned or says why not, and what must not be automatic is not.
func TestProfiles(t *testing.T) {
	entries := map[string]knob.Entry{}
	for _, e := range table.All() {
		entries[e.Name] = e
	}
	scopes := map[Group]knob.ScopeKind{
		Host: knob.ScopeMachine, NICs: knob.ScopeDevice, Tunnels: knob.ScopeDevice, Veths: knob.ScopeDevice,
		Machines: knob.ScopeNetns, Pods: knob.ScopeNetns, Manifests: knob.ScopeManifest, Switches: knob.ScopeSwitch, Centrals: knob.ScopeSwitch,
	}
	for _, p := range Profiles() {
		if got, err := FindProfile(p.Name); err != nil || got.Title != p.Title {
			t.Errorf("%s: %v", p.Name, err)
		}
		seen := map[string]bool{}
		for _, s := range p.Steps {
			e, known := entries[s.Knob]
			key := s.Knob + string(s.On) + s.Name
			switch {
			case s.Knob != "" && !known:
				t.Errorf("%s, %s: there is no knob %s", p.Name, s.Name, s.Knob)
			case s.Reason == "" || s.Name == "":
				t.Errorf("%s, %s: no reason is given", p.Name, s.Name)
			case seen[key]:
				t.Errorf("%s, %s: it is there twice", p.Name, s.Name)
			case (s.State == Obsolete || s.State == NeverAutomatic) && s.Note == "":
				t.Errorf("%s, %s: it does not say what to do", p.Name, s.Name)
			case s.State == Obsolete && e.Instead == "":
				t.Errorf("%s, %s: knob %s is not obsolete", p.Name, s.Name, s.Knob)
			case s.State == Obsolete || s.State == NeverAutomatic:
			case e.ManualOnly != "" || e.Instead != "":
				t.Errorf("%s, %s: knob %s is never automatic", p.Name, s.Name, s.Knob)
			case e.Scope != scopes[s.On]:
				t.Errorf("%s, %s: knob %s is of a %s, not of %s", p.Name, s.Name, s.Knob, e.Scope, s.On)
			}
			if _, ranges := e.Knob.(knob.Ranger); known && s.State == NotShown && s.Value == "" && s.Ladder == nil && !ranges {
				t.Errorf("%s, %s: which value?", p.Name, s.Name)
			}
			seen[key] = true
		}
	}
	if _, err := FindProfile("fast"); verr.Code(err) != verr.Usage || !strings.Contains(err.Error(), "kube-ovn") {
		t.Errorf("%v", err)
	}
	if list := kubeOVN().Steps; len(list) < 9 {
		t.Errorf("the list of Kube-OVN has %d steps", len(list))
	}
}

// fixtureMachine is one with files of its own, that shows what is given.
func fixtureMachine(t *testing.T, files map[string]string) knob.Machine {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	m := knob.Machine{Settings: setting.NewSettings(Backends(root)...)}
	m.Root = root
	return m
}

func named(skipped []Skipped, knob string) []Skipped {
	return slices.DeleteFunc(slices.Clone(skipped), func(s Skipped) bool { return s.Step.Knob != knob })
}

func assigned(assignments []Assignment, knob string) []Assignment {
	return slices.DeleteFunc(slices.Clone(assignments), func(w Assignment) bool { return w.Knob.Name != knob })
}

func TestAssignmentsOfCilium(t *testing.T) {
	m := fixtureMachine(t, map[string]string{
		"cm.yaml": "kind: ConfigMap\nmetadata: {name: cilium-config}\ndata:\n  tunnel: vxlan\n  kube-proxy-replacement: strict\n  enable-hubble: \"true\"\n  enable-host-legacy-routing: \"true\"\n",
	})
	p, err := FindProfile("cilium")
	if err != nil {
		t.Fatal(err)
	}
	assignments, skipped, err := p.Assignments(m, Targets{Manifests: []string{"/cm.yaml"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"cil.masq": "on", "cil.hostroute": "on", "cil.bwm": "on", "cil.hubble": "off"} {
		if w := assigned(assignments, name); len(w) != 1 || w[0].Value != value || w[0].Target.File != "/cm.yaml" || w[0].Step == nil {
			t.Errorf("%s: %+v, want %s", name, w, value)
		}
	}
	if w := assigned(assignments, "cil.hostroute"); len(w) == 1 && w[0].Step.State != WrongWayRound {
		t.Errorf("host routing is %s", w[0].Step.State)
	}
	for name, why := range map[string]string{
		"cil.kpr": "it is on already", "cil.noct": "it needs cil.native to be native first, which is tunnel", "cil.native": "ipv4-native-routing-cidr", "cil.bbr": "never automatic", "tuned.profile": "never automatic",
		"cpu.governor": "the host as a whole is not named", "nic.ring": "no nics are named",
	} {
		if s := named(skipped, name); len(s) != 1 || !strings.Contains(s[0].Reason, why) {
			t.Errorf("%s: %+v, want %q", name, s, why)
		}
	}
	for _, s := range p.Steps {
		if len(named(skipped, s.Knob)) == 0 && len(assigned(assignments, s.Knob)) == 0 {
			t.Errorf("nothing is said of %s", s.Name)
		}
	}
	if left, files := measurable(assignments); len(left) > 0 || len(files) != len(assignments) {
		t.Errorf("what is in a file can be measured: %+v", left)
	}
	// A step before may meet the need; a file that is of others is passed over.
	ready := fixtureMachine(t, map[string]string{
		"cm.yaml":  "kind: ConfigMap\nmetadata: {name: cilium-config}\ndata:\n  ipv4-native-routing-cidr: 10.0.0.0/8\n  kube-proxy-replacement: strict\n",
		"own.yaml": "kind: ConfigMap\nmetadata: {name: other}\ndata:\n  a: b\n",
	})
	second, passed, err := p.Assignments(ready, Targets{Manifests: []string{"/own.yaml", "/cm.yaml"}})
	if w := assigned(second, "cil.noct"); err != nil || len(w) != 1 || len(named(passed, "cil.noct")) != 0 {
		t.Errorf("%+v, %+v, %v", w, named(passed, "cil.noct"), err)
	}
	_, passed, err = p.Assignments(ready, Targets{Manifests: []string{"/own.yaml", "/own.yaml"}})
	if s := named(passed, "cil.hubble"); err != nil || len(s) != 1 || !strings.Contains(s[0].Reason, "none of the files") {
		t.Errorf("%+v, %v", s, err)
	}
	// What is planned one after the other is in effect in the end.
	planned, err := DryRun(m, assignments)
	if err != nil {
		t.Fatal(err)
	}
	if total := Total(planned); len(total) != 1 || !strings.Contains(total[0].New.String(), `enable-host-legacy-routing: "false"`) || !strings.Contains(total[0].New.String(), `enable-hubble: "false"`) {
		t.Errorf("%+v", total)
	}
}

func TestAssignmentsOfKubeOVN(t *testing.T) {
	m := fixtureMachine(t, map[string]string{
		"ovn.yaml": "kind: Deployment\nmetadata: {name: kube-ovn-controller}\nspec: {template: {spec: {containers: [{name: kube-ovn-controller, args: [a, --enable-lb=true]}]}}}\n",
	})
	p, err := FindProfile("kube-ovn")
	if err != nil {
		t.Fatal(err)
	}
	assignments, skipped, err := p.Assignments(m, Targets{Manifests: []string{"/ovn.yaml"}})
	if err != nil || len(assignments) != 1 || assignments[0].Knob.Name != "kubeovn.lb" || assignments[0].Value != "off" {
		t.Errorf("%+v, %v", assignments, err)
	}
	for _, name := range []string{"kubeovn.fastpath", "ovs.kmod_simd", "ovs.stt"} {
		if s := named(skipped, name); len(s) != 1 || !strings.HasPrefix(s[0].Reason, "obsolete: ") {
			t.Errorf("%s: %+v", name, s)
		}
	}
	if _, _, err := p.Assignments(knob.Machine{}, Targets{}); err == nil {
		t.Error("without settings nothing can be read")
	}
}

// Queues grow only where something was dropped, or somebody made them tiny.
func TestAssignmentsByCounters(t *testing.T) {
	p, err := FindProfile("balanced")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		softnet, backlog string
		wanted           bool
	}{
		{"0000ffff 00000000 00000000\n", "1000\n", false},
		{"0000ffff 00000000 00000000\n0000ffff 00000001 00000000\n", "1000\n", true},
		{"0000ffff 00000000 00000000\n", "10\n", true},
	} {
		m := fixtureMachine(t, map[string]string{
			"proc/net/softnet_stat": c.softnet, "proc/sys/net/core/netdev_max_backlog": c.backlog, "proc/sys/net/core/netdev_budget": "300\n",
		})
		holds, seen, err := backlogDrops.Holds(m, knob.Target{})
		if err != nil || holds != c.wanted || !strings.Contains(seen, "netdev_max_backlog "+strings.TrimSpace(c.backlog)) {
			t.Errorf("%+v: %v, %q, %v", c, holds, seen, err)
		}
		assignments, skipped, err := p.Assignments(m, Targets{Host: true})
		if err != nil {
			t.Fatal(err)
		}
		if c.wanted != (len(assigned(assignments, "net.backlog")) == 1) {
			t.Errorf("%+v: assignments %+v, skipped %+v", c, assigned(assignments, "net.backlog"), named(skipped, "net.backlog"))
		}
		rows := pruned(named(skipped, "net.backlog"))
		if c.wanted != (len(rows) == 0) {
			t.Errorf("%+v: pruned %+v", c, rows)
		}
		if !c.wanted && (rows[0].Verdict != search.VerdictNotTried || !strings.Contains(rows[0].Reason, "0 of them, netdev_max_backlog 1000")) {
			t.Errorf("pruned %+v", rows)
		}
	}
}

// A driver that keeps segmentation off for a reason is left so, and the plan says why.
func TestSegmentationOfDrivers(t *testing.T) {
	for driver, want := range map[string]bool{"r8169": false, "e1000e": true} {
		m := fixtureMachine(t, map[string]string{"sys/class/net/eth0/device/vendor": "0x10ec\n"})
		if err := os.Symlink("../../../../bus/pci/drivers/"+driver, filepath.Join(m.Root, "sys/class/net/eth0/device/driver")); err != nil {
			t.Fatal(err)
		}
		for _, s := range mend() {
			if s.Knob != "nic.seg" || s.On != NICs {
				continue
			}
			why, seen := s.unmetCondition(m, knob.Target{Device: "eth0"})
			if (why == "") != want || !want && (!strings.Contains(why, "use at own risk") || seen != "driver r8169") {
				t.Errorf("%s: %q, %q", driver, why, seen)
			}
		}
	}
}

// While governor performance is on, the kernel takes no preference back: a proof tries one
// of both at a time.
func TestGovernorExcludesPreference(t *testing.T) {
	var all []Assignment
	for _, s := range latency().Steps {
		if s.Knob == "cpu.governor" || s.Knob == "cpu.epp" {
			all = append(all, Assignment{Knob: knob.Entry{Facts: knob.Facts{Name: s.Knob}}, Value: s.Value, Step: &s})
		}
	}
	if c := Candidates(all); len(c) != 2 || c[0].Group == "" || c[0].Group != c[1].Group {
		t.Errorf("they are candidates %+v", c)
	}
}

func TestCouples(t *testing.T) {
	for _, c := range couple {
		for _, name := range c {
			if _, err := table.Find(name); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestOtherOwners(t *testing.T) {
	m := fixtureMachine(t, map[string]string{"proc/12/comm": "tuned\n", "proc/13/comm": "irqbalance\n"})
	r := findOwners(m)
	for _, c := range []struct {
		knob        string
		assignments []Assignment
		why         string
	}{
		{"cpu.governor", nil, "tuned (pid 12) owns it"},
		{"irq.affinity", nil, "irqbalance (pid 13) owns it"},
		{"irq.affinity", []Assignment{{Knob: knob.Entry{Facts: knob.Facts{Name: "irq.balance"}}}}, ""},
		{"nic.ring", nil, ""},
		{"net.backlog", nil, ""},
	} {
		if why := r.ownerOf(c.knob, c.assignments); c.why == "" && why != "" || !strings.HasPrefix(why, c.why) {
			t.Errorf("%s: %q, want %q", c.knob, why, c.why)
		}
	}
	for name, want := range map[string]string{
		"irq.balance":  "takes seconds to act",
		"irq.affinity": "irqbalance would move it",
		"nic.ring":     "",
	} {
		ends := Assignment{Knob: knob.Entry{Facts: knob.Facts{Name: "irq.balance"}}}
		one := Assignment{Knob: knob.Entry{Facts: knob.Facts{Name: name}}}
		if kept, _ := measurable([]Assignment{one}); (len(kept) == 1) != (name != "irq.balance") {
			t.Errorf("%s, of itself: %d kept", name, len(kept))
		}
		kept, left := measurable([]Assignment{ends, one})
		if (len(kept) == 1) != (want == "") || !strings.Contains(left[len(left)-1].Reason, cmp.Or(want, "seconds")) {
			t.Errorf("%s: %d kept, %+v", name, len(kept), left)
		}
	}
	pins := Assignment{Knob: knob.Entry{Facts: knob.Facts{Name: "irq.affinity"}}, Step: &Step{}}
	ends := Assignment{Knob: knob.Entry{Facts: knob.Facts{Name: "irq.balance"}}, Step: &Step{}}
	placed := Skipped{Step: Step{Knob: "irq.affinity"}, Kind: AlreadySet}
	for i, c := range []struct {
		assignments []Assignment
		skipped     []Skipped
		kept        int
	}{
		{[]Assignment{ends, pins}, nil, 2},
		{[]Assignment{ends}, []Skipped{placed}, 1},
		{[]Assignment{ends}, nil, 0},
		{[]Assignment{pins}, nil, 1},
	} {
		if kept, left := dropUnowned(c.assignments, c.skipped); len(kept) != c.kept || len(left) != len(c.assignments)-c.kept {
			t.Errorf("%d: kept %+v, left %+v", i, kept, left)
		}
	}
	p := Profile{Name: "x", Steps: []Step{{Name: "budget", Knob: "net.busy_poll", On: Host, Value: "0", State: NotShown}}}
	assignments, skipped, err := p.Assignments(m, Targets{Host: true})
	if err != nil || len(assignments) > 0 || len(skipped) != 1 || !strings.Contains(skipped[0].Reason, "tuned") {
		t.Errorf("%+v, %+v, %v", assignments, skipped, err)
	}
}
