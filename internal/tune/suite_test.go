package tune

import (
	"fmt"
	"testing"

	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/knob/table"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/testenv"
)

// samples are values of knobs that have no range, or not all of it.
var samples = map[string][]string{
	"nic.qdisc":       {"pfifo", "noqueue"},
	"nic.mtu":         {"1350", "1450"},
	"nic.txqueuelen":  {"500", "2000"},
	"udp.mem":         {"1500000"},
	"net.rfs_table":   {"65536", "131072"},
	"bpf.jit":         {"harden=1"},
	"nft.flowtable":   {"veth0"},
	"kubeovn.ct_skip": {"10.16.0.0/16"},
	"cal.mtu":         {"8950"},
}

// refused are the knobs that can be read here, and that a kernel or a device may
// refuse to set, and where they are set.
var refused = map[string]string{
	"nic.lro":       onlyCards,
	"nft.flowtable": "this kernel may have no flow tables: it is tested beside the cards of virtual machines",
}

// untestable are the knobs that nothing here can be turned by, and why.
var untestable = map[string]string{
	"cpu.smt":         onlyRead,
	"numa.place":      onlyRead,
	"boot.cmdline":    onlyRead,
	"irq.balance":     "it needs a service manager, which package knob plays in its tests",
	"irq.affinity":    onlyCards,
	"nic.irq_suspend": "kernels before 6.13 do not have it: package knob turns it where they do",
	"nic.ring":        onlyCards,
	"nic.coalesce":    onlyCards,
	"nic.rss_udp":     onlyCards,
	"nic.rss_table":   onlyCards,
	"nic.arfs":        onlyCards,
	"nic.gro_hw":      onlyCards,
	"nic.pause":       onlyCards,
	"nic.privflags":   onlyCards,
	"tuned.profile":   "it needs tuned, which package knob plays in its tests",
	"ovs.threads":     onlySwitch,
	"ovs.cache":       onlySwitch,
	"ovs.emc":         onlySwitch,
	"ovs.hw_offload":  onlySwitch,
	"ovn.encap_csum":  onlySwitch,
	"ovn.lb":          onlySwitch,
}

const (
	onlyRead   = "it is only read"
	onlyCards  = "no virtual device of this kernel has it: it is tested on the cards of virtual machines"
	onlySwitch = "it needs a switch that runs, which package knob starts in its tests"
)

// enough is how many values of one knob are set: of all of them on all targets, the
// sequences of [TestExactUndo] take their share.
func enough() int {
	if testenv.Long() {
		return 2
	}
	return 1
}

// Every knob of the table: what is set is what it shows, a second time nothing
// needs to be written, and an undo brings every byte back, also when the process
// was killed before the write or after it.
func TestEveryKnob(t *testing.T) {
	testenv.Root(t)
	p := newRunner(t, testenv.RoleCommand(t, "child"))
	dishes := map[string][]knobCase{}
	for _, d := range p.testbed.Menu {
		dishes[d.Knob] = append(dishes[d.Knob], d)
	}
	for _, e := range table.All() {
		if e.Knob == nil {
			continue
		}
		t.Run(e.Name, func(t *testing.T) {
			why, known := untestable[e.Name]
			switch {
			case known && dishes[e.Name] != nil:
				t.Errorf("it can be turned here, and the list says that it cannot: %s", why)
			case known:
				t.Skip(why)
			case dishes[e.Name] == nil:
				t.Fatal("no target here has it: give it one, or a sample value, or say in the list where it is tested")
			}
			turned := 0
			for _, d := range dishes[e.Name] {
				if turned < enough() {
					turned += p.everyValue(t, e, d)
				}
			}
			if turned == 0 && refused[e.Name] == "" {
				t.Error("no value of it was ever written")
			}
		})
	}
	p.end()
}

// everyValue turns a knob on one target, and gives how many of its values were
// other ones than it had.
func (p *runner) everyValue(t *testing.T, e knob.Entry, d knobCase) (turned int) {
	m := p.testbed.machine(func(b setting.Backend) setting.Backend { return b })
	now, err := e.Get(m, d.Target)
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range d.Values {
		if value == now.Value || turned == enough() || !p.setAndUndo(t, m, Assignment{Knob: e, Target: d.Target, Value: value}) {
			continue
		}
		if turned++; turned > 1 {
			continue
		}
		for _, point := range []journal.CrashPoint{journal.PointRecorded, journal.PointWritten} {
			o := childOrder{Case: &knobCase{e.Name, d.Target, []string{value}}, Point: string(point)}
			if _, killed, err := p.send(o); err != nil || !killed {
				t.Errorf("%s of %s: it was not killed at %q: %v", value, d.Target, point, err)
			}
			j := p.open(t, m)
			p.undo(t, j, fmt.Sprintf("%s of %s, killed at %q", value, d.Target, point))
			j.Close()
		}
	}
	return turned
}

// setAndUndo turns a knob and undoes it. False: it needed no write, or the knob
// or the kernel refused the value, of which nothing may stay.
func (p *runner) setAndUndo(t *testing.T, m knob.Machine, w Assignment) bool {
	t.Helper()
	j := p.open(t, m)
	defer j.Close()
	tx, err := j.Begin(0)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := Set(tx, m, w)
	if err != nil {
		t.Logf("%s of %s: %v", w.Value, w.Target, err)
	}
	if len(entries) > 0 {
		shown, err := w.Knob.Get(m, w.Target)
		if err != nil {
			t.Fatal(err)
		}
		for _, value := range []string{w.Value, shown.Value} {
			again := w
			again.Value = value
			if more, err := Set(tx, m, again); err != nil || len(more) > 0 {
				t.Errorf("%s of %s: it shows %s, and setting it to %s once more took %d writes, %v", w.Value, w.Target, shown.Value, value, len(more), err)
			}
		}
		if p.testbed.snapshot(t) == p.initial {
			t.Errorf("%s of %s: %d writes changed nothing", w.Value, w.Target, len(entries))
		}
	}
	p.undo(t, j, fmt.Sprintf("%s of %s", w.Value, w.Target))
	return len(entries) > 0
}

func (p *runner) open(t *testing.T, m knob.Machine) *journal.Journal {
	t.Helper()
	j, err := journal.Open(journal.Options{Folder: p.testbed.Journal, Settings: m.Settings, User: "a test"})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// undo undoes all that is open, and wants everything to be as it was.
func (p *runner) undo(t *testing.T, j *journal.Journal, what string) {
	t.Helper()
	outcomes, err := j.Undo(nil, journal.UndoOptions{})
	for _, o := range outcomes {
		if o.Err != nil {
			t.Errorf("%s: undo %s: %v", what, o.Entry.Setting, o.Err)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if diff := differences(p.initial, p.testbed.snapshot(t)); diff != "" {
		t.Errorf("%s: it is not as it was:\n%s", what, diff)
	}
}
