package display

import (
	"errors"
	"io"
	"slices"
	"time"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/tune"
)

// JSONVersion is that of the form in which commands about tuning print JSON. In the first one, a setting was
// "cell", with "store" and "place".
const JSONVersion = 2

// Transactions are the JSON form of transactions.
type Transactions struct {
	Version int           `json:"version"`
	Txns    []Transaction `json:"transactions"`
}

// Transaction is the JSON form of a transaction. Its state is that of its most important write; of
// one without writes, "empty".
type Transaction struct {
	ID        int         `json:"id"`
	Time      time.Time   `json:"time"`
	User      string      `json:"who"`
	Command   string      `json:"command"`
	State     string      `json:"state"`
	Lease     *jsonLease  `json:"lease,omitempty"`
	Confirmed time.Time   `json:"confirmed,omitzero"`
	Writes    []jsonWrite `json:"writes"`
}

type jsonLease struct {
	Length float64           `json:"length"` // s
	Until  time.Time         `json:"until"`
	Kind   journal.LeaseKind `json:"kind"`
}

// jsonWrite is the JSON form of a write, carried out or planned.
type jsonWrite struct {
	Knob     string         `json:"knob"`
	Setting  jsonSetting    `json:"setting"`
	Old      setting.Value  `json:"old"`
	New      setting.Value  `json:"new"`                 // as asked for
	ReadBack *setting.Value `json:"read_back,omitempty"` // read after the write; in a conflict, read now
	State    string         `json:"state,omitempty"`     // empty: it is only planned
	Conflict bool           `json:"conflict"`
	Reason   string         `json:"why,omitempty"` // of the state, or why it is still open
}

// jsonSetting is the JSON form of a setting. On disk it keeps its first names.
type jsonSetting struct {
	Backend string        `json:"backend"`
	Scope   setting.Scope `json:"scope,omitzero"`
	Key     string        `json:"key,omitempty"`
}

func toJSONSetting(s setting.Setting) jsonSetting { return jsonSetting{s.Backend, s.Scope, s.Key} }

// NewTransactions converts transactions to their JSON form.
func NewTransactions(txns []*journal.Txn, conflicts Conflicts) (Transactions, error) {
	all := Transactions{Version: JSONVersion, Txns: []Transaction{}}
	now, err := host.SinceBootAsleep()
	if err != nil {
		return all, err
	}
	boot, err := host.BootID()
	if err != nil {
		return all, err
	}
	for _, t := range txns {
		told := Transaction{ID: t.ID, Time: t.Time, User: t.User, Command: t.Command, Confirmed: t.Confirmed, State: txnState(t, conflicts), Writes: []jsonWrite{}}
		if t.Lease != nil {
			until := t.Time.Add(t.Lease.Length)
			if t.Boot == boot {
				until = time.Now().Add(t.Lease.Until - now) // the clock may have been set since
			}
			told.Lease = &jsonLease{Length: t.Lease.Length.Seconds(), Until: until.Round(time.Second), Kind: t.Lease.Kind}
		}
		for _, e := range t.Entries {
			told.Writes = append(told.Writes, toJSONWrite(e, conflicts[e.ID]))
		}
		all.Txns = append(all.Txns, told)
	}
	return all, nil
}

func toJSONWrite(e *journal.Entry, conflict *journal.ConflictError) jsonWrite {
	w := jsonWrite{Knob: e.Knob, Setting: toJSONSetting(e.Setting), Old: e.Old, New: e.New, ReadBack: e.Readback, State: stateWord(e.State), Reason: e.Reason}
	if conflict != nil {
		w.Conflict, w.State, w.ReadBack, w.Reason = true, conflictWord, &conflict.Now, conflict.Error()
	}
	return w
}

// txnState is the state of a transaction in one of the words of journal's help.
func txnState(t *journal.Txn, conflicts Conflicts) string {
	has := map[string]bool{}
	for _, e := range t.Entries {
		has[toJSONWrite(e, conflicts[e.ID]).State] = true
	}
	if t.Lease != nil && t.Confirmed.IsZero() && t.Open() && !has[conflictWord] {
		return "on trial"
	}
	for _, state := range []journal.EntryState{conflictWord, journal.InDoubt, journal.Applied, journal.Abandoned, journal.Failed, journal.Undone, journal.Superseded, journal.Vanished} {
		if word := stateWord(state); has[word] {
			return word
		}
	}
	return "empty"
}

// undoneTxns are the transactions of an undo, for machines.
func undoneTxns(h journal.History, txns []int, outcomes []journal.Outcome) (Transactions, error) {
	found, why := Conflicts{}, map[int]string{}
	for _, o := range outcomes {
		if conflict := new(journal.ConflictError); errors.As(o.Err, &conflict) {
			found[o.Entry.ID] = conflict
		} else if o.Err != nil {
			why[o.Entry.ID] = o.Err.Error()
		}
	}
	chosen := SelectTxns(h, txns...)
	all, err := NewTransactions(chosen, found)
	for i, t := range chosen {
		for k, e := range t.Entries {
			if text := why[e.ID]; text != "" && err == nil {
				all.Txns[i].Writes[k].Reason = text
			}
		}
	}
	return all, err
}

// SelectTxns gives the transactions with these numbers.
func SelectTxns(h journal.History, txns ...int) []*journal.Txn {
	return slices.DeleteFunc(slices.Clone(h.Txns), func(t *journal.Txn) bool { return !slices.Contains(txns, t.ID) })
}

// PrintTxnJSON prints one transaction, for machines.
func PrintTxnJSON(out io.Writer, h journal.History, txn int) error {
	told, err := NewTransactions(SelectTxns(h, txn), nil)
	if err != nil {
		return err
	}
	return PrintJSON(out, told)
}

// PrintUndoneJSON is [PrintUndone] for machines, with the same errors.
func PrintUndoneJSON(out io.Writer, h journal.History, txns []int, outcomes []journal.Outcome) error {
	all, err := undoneTxns(h, txns, outcomes)
	if err == nil {
		err = PrintJSON(out, all)
	}
	if err != nil {
		return err
	}
	return PrintUndone(io.Discard, outcomes)
}

// plannedWrites are changes that a plan comes to, for machines.
func plannedWrites(p tune.Planned) []jsonWrite {
	writes := []jsonWrite{}
	for _, c := range p.Changes {
		writes = append(writes, jsonWrite{Knob: p.Assignment.Knob.Name, Setting: toJSONSetting(c.Setting), Old: c.Old, New: c.New})
	}
	return writes
}
