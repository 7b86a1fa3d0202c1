package tune_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/venturi-net/venturi/internal/doctor"
	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/knob/table"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
	"github.com/venturi-net/venturi/internal/tune"
	"github.com/venturi-net/venturi/internal/verr"
)

// card is a network card of this machine, and a journal of what is done to it.
type card struct {
	driver  string
	on      knob.Target
	scope   setting.Scope
	m       knob.Machine
	options journal.Options
}

// cardOf finds the first card with a driver.
func cardOf(t *testing.T, driver string) card {
	t.Helper()
	return cardsOf(t, driver)[0]
}

// cardsOf finds all cards with a driver.
func cardsOf(t *testing.T, driver string) (cards []card) {
	t.Helper()
	links, err := filepath.Glob("/sys/class/net/*/device/driver")
	testenv.Must(t, err)
	for _, link := range links {
		to, err := os.Readlink(link)
		testenv.Must(t, err)
		if filepath.Base(to) != driver {
			continue
		}
		c := card{driver: driver}
		c.on.Device = filepath.Base(filepath.Dir(filepath.Dir(link)))
		c.scope, err = c.on.Scope()
		testenv.Must(t, err)
		c.m.Settings = setting.NewSettings(tune.Backends("")...)
		c.options = journal.Options{Folder: t.TempDir(), Settings: c.m.Settings, User: "a test"}
		cards = append(cards, c)
	}
	if len(cards) == 0 {
		t.Fatalf("no card has the driver %s", driver)
	}
	return cards
}

// snapshot reads every value of the card, and which of its offloads are in effect.
func (c card) snapshot(t *testing.T) map[string]string {
	t.Helper()
	settings, err := setting.DeviceSettings(c.scope)
	testenv.Must(t, err)
	all := map[string]string{}
	testenv.Must(t, c.m.Settings.WithEntered(c.scope, func(near *setting.Settings) error {
		for _, s := range settings {
			if s.Backend == "feature" {
				continue // all at once, below
			}
			v, err := near.Read(s)
			if err != nil {
				return err
			}
			all[s.Backend+" "+s.Key] = v.String()
		}
		return nil
	}))
	features, err := setting.DeviceFeatures(c.scope)
	testenv.Must(t, err)
	for name, f := range features {
		all["feature "+name] = fmt.Sprintf("%+v", f)
	}
	return all
}

// checkSame tells what is different from before.
func (c card) checkSame(t *testing.T, what string, before map[string]string) {
	t.Helper()
	now := c.snapshot(t)
	names := maps.Clone(before)
	maps.Copy(names, now)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if now[name] != before[name] {
			t.Errorf("%s %s: %s was %q, is %q", c.driver, what, name, before[name], now[name])
		}
	}
}

// set turns a knob, as one command does.
func (c card) set(t *testing.T, e knob.Entry, value string) error {
	t.Helper()
	j, err := journal.Open(c.options)
	testenv.Must(t, err)
	defer j.Close()
	tx, err := j.Begin(0)
	testenv.Must(t, err)
	_, err = tune.Set(tx, c.m, tune.Assignment{Knob: e, Target: c.on, Value: value})
	if err != nil {
		return err
	}
	return tx.End()
}

// undo undoes all, as another command does.
func (c card) undo(t *testing.T) {
	t.Helper()
	j, err := journal.Open(c.options)
	testenv.Must(t, err)
	defer j.Close()
	outcomes, err := j.Undo(nil, journal.UndoOptions{})
	testenv.Must(t, err)
	for _, o := range outcomes {
		if o.Err != nil {
			t.Errorf("%s: undo %s: %v", c.driver, o.Entry.Setting, o.Err)
		}
	}
}

// downUp takes the card down and up again, upon which drivers make a lot anew.
func (c card) downUp(t *testing.T) {
	t.Helper()
	link, err := netlink.LinkByName(c.on.Device)
	testenv.Must(t, err)
	testenv.Must(t, netlink.LinkSetDown(link))
	testenv.Must(t, netlink.LinkSetUp(link))
}

// samples are values of knobs beside those that are worth a trial.
var samples = map[string][]string{
	"nic.ring":       {"rx=100", "tx=100"}, // which drivers round
	"nic.coalesce":   {"rx-usecs=20", "tx-frames=1", "tx-frames=0"},
	"nic.lro":        {"on", "off"},
	"nic.mtu":        {"1350", "9000"},
	"nic.txqueuelen": {"500", "2000"},
	"nic.big_tcp":    {"gso=32768", "16384"},
	"nic.arfs":       {"256"},
}

// TestCardsHere runs in the machine that TestCards starts.
func TestCardsHere(t *testing.T) {
	testenv.Root(t)
	if !agenttest.InGuest() {
		t.Skip("is not in a machine with the cards")
	}
	// Or else there is nothing that net.rfs could set.
	testenv.Must(t, os.WriteFile("/proc/sys/net/core/rps_sock_flow_entries", []byte("32768"), 0o644))
	for _, driver := range drivers {
		for _, e := range deviceKnobs() {
			t.Run(driver+" "+e.Name, func(t *testing.T) { setAndUndo(t, cardOf(t, driver), e) })
		}
	}
	t.Run("a tiny backlog", tinyBacklog)
	t.Run("no receive hash", noReceiveHash)
	t.Run("flow table", func(t *testing.T) { flowTable(t, cardOf(t, "virtio_net")) })
	t.Run("hash table under other rings", func(t *testing.T) { tableUnderRings(t, cardOf(t, "virtio_net")) })
	t.Run("interrupts of a renamed device", func(t *testing.T) { interruptsRenamed(t, cardOf(t, "e1000e")) })
	t.Run("interrupts of other channels, virtio_net", func(t *testing.T) { interruptsAnew(t, cardOf(t, "virtio_net"), "nic.channels") })
	for _, driver := range drivers {
		t.Run("interrupts of other rings, "+driver, func(t *testing.T) { interruptsAnew(t, cardOf(t, driver), "nic.ring") })
	}
	t.Run("moved to another namespace", func(t *testing.T) { movedToNetns(t, cardOf(t, "e1000e")) })
	t.Run("rules of the filter", func(t *testing.T) {
		for _, driver := range drivers {
			// None of them has a filter, and each has its own way to say so.
			if n, err := setting.FilterRules(cardOf(t, driver).scope); n != 0 || err != nil {
				t.Errorf("%s has %d rules, %v", driver, n, err)
			}
		}
	})
}

// tinyBacklog is named by the doctor, with what mends it, and with that it is well.
func tinyBacklog(t *testing.T) {
	const file = "/proc/sys/net/core/netdev_max_backlog"
	usual, err := os.ReadFile(file)
	testenv.Must(t, err)
	testenv.Must(t, os.WriteFile(file, []byte("4"), 0o644))
	named := func() (mend string) {
		t.Helper()
		r, err := doctor.Examine(t.Context(), doctor.Options{})
		testenv.Must(t, err)
		for _, f := range r.Findings {
			if f.Code == "backlog-small" {
				mend = f.Knob + "=" + f.Value
			}
		}
		return mend
	}
	mend := named()
	name, value, _ := strings.Cut(mend, "=")
	e, err := table.Find(name)
	testenv.Must(t, err)
	c := cardOf(t, "virtio_net")
	c.on = knob.Target{}
	testenv.Must(t, c.set(t, e, value))
	if still := named(); still != "" {
		t.Errorf("with %s it is named still: %s", mend, still)
	}
	c.undo(t)
	if named() != mend {
		t.Error("undone, it is not named again")
	}
	testenv.Must(t, os.WriteFile(file, usual, 0o644))
}

// flowTable turns the knob of a namespace that many kernels cannot.
func flowTable(t *testing.T, c card) {
	e, err := table.Find("nft.flowtable")
	testenv.Must(t, err)
	shows := func(want string) {
		t.Helper()
		if now, err := e.Get(c.m, knob.Target{}); err != nil || now.Value != want {
			t.Errorf("it shows %q, %v, want %q", now.Value, err, want)
		}
	}
	device := c.on.Device
	c.on = knob.Target{}
	shows("off")
	testenv.Must(t, c.set(t, e, device))
	shows(device)
	c.undo(t)
	shows("off")
}

// setAndUndo tries every value of a knob on a card, and tells the outcome.
func setAndUndo(t *testing.T, c card, e knob.Entry) {
	outcome := "lacks it"
	defer func() { fmt.Printf("\n%s%s %s %s\n", outcomePrefix, c.driver, e.Name, outcome) }()
	if _, err := e.Get(c.m, c.on); verr.Code(err) == verr.Missing {
		t.Log(err)
		return
	} else if err != nil {
		t.Fatal(err)
	}
	values := samples[e.Name]
	if r, ok := e.Knob.(knob.Ranger); ok {
		more, err := r.Range(c.m, c.on)
		testenv.Must(t, err)
		values = append(more, values...)
	}
	ran, refused := 0, 0
	before := c.snapshot(t)
	for _, value := range values {
		switch set, err := c.setAndCheck(t, e, value, before, ran == 0); {
		case set:
			ran++
		case err != nil:
			refused++
			t.Logf("%s=%s: %v", e.Name, value, err)
			// What a kernel or a driver has not is told as that.
			if errors.Is(err, errors.ErrUnsupported) && (verr.Code(err) != verr.Missing || !strings.Contains(err.Error(), "kernel")) {
				t.Errorf("%s=%s: code %d does not tell that this kernel cannot: %v", e.Name, value, verr.Code(err), err)
			}
		}
	}
	switch {
	case t.Failed():
		outcome = "FAILED"
	case ran == 0 && refused > 0:
		outcome = "refuses"
	case ran == 0:
		outcome = "read"
	default:
		outcome = fmt.Sprintf("ran %d of %d", ran, ran+refused)
	}
}

// setAndCheck sets a value and undoes it; set: it was another one. With flap the card
// goes down and up between.
func (c card) setAndCheck(t *testing.T, e knob.Entry, value string, before map[string]string, flap bool) (set bool, err error) {
	t.Helper()
	what := e.Name + "=" + value
	writes, err := e.Plan(c.m, c.on, value)
	if err != nil {
		return false, err
	}
	if err := c.set(t, e, value); err != nil {
		c.checkSame(t, what+" was refused", before)
		return false, err
	}
	for _, w := range writes {
		now, err := c.m.Settings.Read(w.Setting)
		testenv.Must(t, err)
		if !c.m.Settings.Matches(w.Setting, w.Value, now) {
			t.Errorf("%s: %s shows %s", what, w.Setting, now)
		}
		set = set || now.String() != before[w.Setting.Backend+" "+w.Setting.Key]
	}
	if flap {
		c.downUp(t)
	}
	c.undo(t)
	c.checkSame(t, what+" was undone", before)
	return set, nil
}

// A table that somebody set stays when rings are made anew, and when that is
// undone; and fewer channels than it names are refused.
func tableUnderRings(t *testing.T, c card) {
	before := c.snapshot(t)
	if before["rss "] == "" {
		t.Skip("its driver has no table of a hash: that is so before Linux 5.18")
	}
	set := func(name, value string) error {
		e, err := table.Find(name)
		testenv.Must(t, err)
		return c.set(t, e, value)
	}
	testenv.Must(t, set("nic.channels", "combined=4"))
	testenv.Must(t, set("nic.rss_table", "0:0:3"))
	table := c.snapshot(t)["rss "]
	for _, step := range []struct{ knob, value string }{{"nic.ring", "rx=128"}, {"nic.ring", "tx=128"}} {
		testenv.Must(t, set(step.knob, step.value))
		if now := c.snapshot(t)["rss "]; now != table {
			t.Errorf("after %s=%s the hash is %s, was %s", step.knob, step.value, now, table)
		}
	}
	if err := set("nic.channels", "combined=2"); err == nil {
		t.Error("fewer channels than the table names were set")
	}
	c.undo(t)
	c.checkSame(t, "all was undone", before)
}
