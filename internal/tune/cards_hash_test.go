package tune_test

import (
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/tune"
)

// noReceiveHash applies a profile to a virtio card whose host offers no receive hash: the plan says
// so, and all the rest is set and undone.
func noReceiveHash(t *testing.T) {
	cards := cardsOf(t, "virtio_net")
	if len(cards) != 2 {
		t.Fatalf("there are %d virtio cards, want one without a receive hash behind one with it", len(cards))
	}
	c := cards[1]
	// The driver takes no fields, though it answers which it hashes.
	udp := setting.Setting{Backend: "flowhash", Scope: c.scope, Key: "udp4"}
	if now, err := c.m.Settings.Read(udp); err != nil {
		t.Skipf("its driver knows of no hash: that is so before Linux 5.18: %v", err)
	} else if err := c.m.Settings.Write(udp, setting.Text("sdfn")); err == nil || now.String() != setting.NoHashFields {
		t.Fatalf("it hashes %s, and is given other fields: %v", now, err)
	}
	before := c.snapshot(t)
	p, err := tune.FindProfile("throughput")
	testenv.Must(t, err)
	assignments, skipped, err := p.Assignments(c.m, tune.Targets{NICs: []knob.Target{c.on}})
	testenv.Must(t, err)
	told := ""
	for _, s := range skipped {
		if s.Step.Knob == "nic.rss_udp" && s.Kind == tune.Unable {
			told = s.Reason
		}
	}
	if !strings.Contains(told, "the card has no receive hash") {
		t.Errorf("of nic.rss_udp the plan says %q; it skips %+v", told, skipped)
	}
	assignments, _ = tune.Settled(assignments)
	j, err := journal.Open(c.options)
	testenv.Must(t, err)
	_, entries, err := tune.Apply(t.Context(), j, c.m, assignments, tune.TrialOptions{})
	j.Close()
	if err != nil || len(entries) == 0 {
		t.Errorf("%d of %d assignments were carried out: %v", len(entries), len(assignments), err)
	}
	c.undo(t)
	c.checkSame(t, "all was undone", before)
}
