package display

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/setting"
)

// The names in what machines read stay: docs/tuning.md promises them.
func TestToldNames(t *testing.T) {
	found := setting.Text("2")
	e := &journal.Entry{ID: 1, Txn: 3, Knob: "net.listen", Setting: setting.Setting{Backend: "sysctl", Key: "a"}, Old: setting.Text("1"), New: setting.Text("2"), Readback: &found, State: journal.Undone, Reason: "why"}
	h := journal.History{Txns: []*journal.Txn{{ID: 3, Lease: &journal.Lease{Length: time.Minute}, Confirmed: time.Now(), Entries: []*journal.Entry{e}}}}
	told, err := undoneTxns(h, []int{3}, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(told)
	if err != nil {
		t.Fatal(err)
	}
	var top struct {
		Version      int
		Transactions []map[string]json.RawMessage
	}
	if err := json.Unmarshal(text, &top); err != nil || top.Version != JSONVersion || len(top.Transactions) != 1 {
		t.Fatalf("%s: %v", text, err)
	}
	txn := top.Transactions[0]
	var writes []map[string]any
	var lease map[string]any
	if err := errors.Join(json.Unmarshal(txn["writes"], &writes), json.Unmarshal(txn["lease"], &lease)); err != nil || len(writes) != 1 {
		t.Fatalf("%s: %v", text, err)
	}
	for _, c := range []struct{ got, want string }{
		{names(txn), "command confirmed id lease state time who writes"},
		{names(writes[0]), "conflict knob new old read_back setting state why"},
		{names(lease), "kind length until"},
	} {
		if c.got != c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
	}
}

func names[V any](of map[string]V) string {
	return strings.Join(slices.Sorted(maps.Keys(of)), " ")
}

// A lease ends by the clock on the wall; what stands of a conflict is somebody else's.
func TestTellTxns(t *testing.T) {
	boot, err := host.BootID()
	if err != nil {
		t.Fatal(err)
	}
	now, err := host.SinceBootAsleep()
	if err != nil {
		t.Fatal(err)
	}
	e := &journal.Entry{ID: 9, Old: setting.Text("1"), New: setting.Text("2"), State: journal.Applied}
	lease := &journal.Lease{Length: time.Hour, Until: now + time.Hour, Kind: journal.TrialLease}
	trial := &journal.Txn{ID: 1, Boot: boot, Lease: lease, Entries: []*journal.Entry{e}}
	for _, c := range []struct {
		txn       *journal.Txn
		conflicts Conflicts
		want      string
	}{
		{&journal.Txn{}, nil, "empty"},
		{&journal.Txn{Entries: []*journal.Entry{e, {State: journal.Undone}}}, nil, "open"},
		{trial, nil, "on trial"},
		{trial, Conflicts{9: {Entry: e, Now: setting.Text("3")}}, "conflict"},
		{&journal.Txn{Entries: []*journal.Entry{{State: journal.Vanished}, {State: journal.Undone}}}, nil, "undone"},
	} {
		told, err := NewTransactions([]*journal.Txn{c.txn}, c.conflicts)
		if err != nil {
			t.Fatal(err)
		}
		got := told.Txns[0]
		if got.State != c.want {
			t.Errorf("%s, want %s", got.State, c.want)
		}
		if got.Lease != nil && (time.Until(got.Lease.Until)-time.Hour).Abs() > time.Minute {
			t.Errorf("a lease of an hour ends at %s", got.Lease.Until)
		}
		if c.conflicts != nil && (!got.Writes[0].Conflict || got.Writes[0].ReadBack.String() != "3") {
			t.Errorf("%+v", got.Writes[0])
		}
	}
}
