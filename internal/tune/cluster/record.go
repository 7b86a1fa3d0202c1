package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/venturi-net/venturi/internal/kube"
	"github.com/venturi-net/venturi/internal/kube/cni"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/verr"
)

// ClusterTxn is one entry of the cluster's journal: what a tuning changes, and what was there
// before. It is there before anything is written, and goes when all of it is undone.
type ClusterTxn struct {
	ID      int              `json:"id"`
	Time    time.Time        `json:"time"`
	User    string           `json:"user"`
	Command string           `json:"command"`
	Version string           `json:"version"`
	Done    bool             `json:"done"` // all of it was written
	Objects []RecordedObject `json:"objects,omitempty"`
	Nodes   []string         `json:"nodes,omitempty"` // that it changes: their own journals have the values
	Token   string           `json:"token"`           // by which those journals know it
	Lease   *Lease           `json:"lease,omitempty"` // nil: it is on no trial
	doubt   bool             // a write may come yet
}

// RecordedObject is an object that a transaction changes.
type RecordedObject struct {
	Object cni.Object    `json:"object"`
	Fields []FieldChange `json:"fields"`
	// Whole is all of the object, which earlier versions recorded. Nothing needs it, and it may have
	// what readers of the journal must not see: the next that writes the entry leaves it out.
	Whole json.RawMessage `json:"old,omitempty"`
}

// manager is the field manager of a transaction.
func (t *ClusterTxn) manager() string { return ownPrefix + strconv.Itoa(t.ID) }

const entryPrefix = "transaction-"

func entryName(id int) string { return entryPrefix + strconv.Itoa(id) }

// readTransactions gives the cluster's journal, the first transaction first: also with an error, what of
// it can be read.
func readTransactions(ctx context.Context, client *kube.Client) ([]*ClusterTxn, error) {
	entries, err := client.ReadLedger(ctx)
	if err != nil {
		return nil, err
	}
	return parseTransactions(entries)
}

// parseTransactions gives all entries that can be read; an error is that of the first one that cannot.
func parseTransactions(entries map[string]string) (all []*ClusterTxn, failed error) {
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		t, err := parseTransaction(name, entries[name])
		switch {
		case err == nil:
			all = append(all, t)
		case failed == nil:
			failed = err
		}
	}
	slices.SortFunc(all, func(a, b *ClusterTxn) int { return a.ID - b.ID })
	return all, failed
}

// parseTransaction reads an entry. One with something that this version does not know is refused: to
// write it anew would lose that.
func parseTransaction(name, text string) (*ClusterTxn, error) {
	t := &ClusterTxn{}
	err := setting.UnmarshalStrict([]byte(text), t)
	if err == nil && entryName(t.ID) == name {
		return t, nil
	}
	if err == nil {
		err = errors.New("its number is not that of its name")
	}
	writer, hint := "", "somebody has changed ConfigMap "+kube.LedgerName+" in namespace "+kube.LedgerNamespace+": repair it by hand"
	if t.Version != "" {
		writer, hint = ", written by venturi "+t.Version, "use that version of venturi, or a later one, for this transaction"
	}
	return nil, verr.Wrap(verr.Failed, "cannot read the cluster's journal", fmt.Errorf("entry %s%s: %w", name, writer, err), hint)
}

// begin records a transaction, which gets its number.
func (t *ClusterTxn) begin(ctx context.Context, client *kube.Client) error {
	return client.ChangeLedger(ctx, func(entries map[string]string) error {
		t.ID = 1
		for name := range entries {
			if id, err := strconv.Atoi(strings.TrimPrefix(name, entryPrefix)); err == nil && id >= t.ID {
				t.ID = id + 1
			}
		}
		return t.put(entries)
	})
}

// update changes the entry of a transaction as the journal has it now, and nothing else of the
// journal. One of which nothing is left to undo goes. Error: [errClosed], where there is no such
// entry any more, or what change says.
func (t *ClusterTxn) update(ctx context.Context, client *kube.Client, change func(now *ClusterTxn) error) error {
	return client.ChangeLedger(ctx, func(entries map[string]string) error {
		text, open := entries[entryName(t.ID)]
		if !open {
			return errClosed
		}
		now, err := parseTransaction(entryName(t.ID), text)
		if err != nil {
			return err
		}
		if now.Token != t.Token {
			return errClosed // its number is that of a later transaction
		}
		if err := change(now); err != nil {
			return err
		}
		if len(now.Objects)+len(now.Nodes) == 0 {
			delete(entries, entryName(t.ID))
			return nil
		}
		return now.put(entries)
	})
}

// settle records what is left of a transaction to undo, and what change adds to that. What somebody
// else has undone or given up meanwhile stays so.
func (t *ClusterTxn) settle(ctx context.Context, client *kube.Client, change func(now *ClusterTxn) error) error {
	return t.update(ctx, client, func(now *ClusterTxn) error {
		now.narrow(t)
		return change(now)
	})
}

// save records what is left of a transaction to undo. That it is closed already is no error.
func (t *ClusterTxn) save(ctx context.Context, client *kube.Client) error {
	err := t.settle(ctx, client, func(*ClusterTxn) error { return nil })
	if errors.Is(err, errClosed) {
		t.Objects, t.Nodes = nil, nil
		return nil
	}
	return err
}

// narrow keeps what another reading of the transaction has, too.
func (t *ClusterTxn) narrow(to *ClusterTxn) {
	t.Nodes = slices.DeleteFunc(t.Nodes, func(name string) bool { return !slices.Contains(to.Nodes, name) })
	var left []RecordedObject
	for _, o := range t.Objects {
		i := slices.IndexFunc(to.Objects, func(b RecordedObject) bool { return b.Object == o.Object })
		if i < 0 {
			continue
		}
		o.Fields = slices.DeleteFunc(o.Fields, func(f FieldChange) bool {
			return !slices.ContainsFunc(to.Objects[i].Fields, func(b FieldChange) bool { return slices.Equal(b.Path, f.Path) })
		})
		if len(o.Fields) > 0 {
			left = append(left, o)
		}
	}
	t.Objects = left
}

// reopen records a transaction again that somebody has closed while its changes were made, with what
// of them could not be undone.
func (t *ClusterTxn) reopen(ctx context.Context, client *kube.Client) error {
	t.Lease = nil // whoever held it is gone
	return client.ChangeLedger(ctx, func(entries map[string]string) error {
		if _, taken := entries[entryName(t.ID)]; taken {
			return fmt.Errorf("its number %d is that of another transaction now", t.ID)
		}
		return t.put(entries)
	})
}

func (t *ClusterTxn) put(entries map[string]string) error {
	for i := range t.Objects {
		t.Objects[i].Whole = nil
	}
	text, err := json.Marshal(t)
	if err != nil {
		return err
	}
	entries[entryName(t.ID)] = string(text)
	return nil
}
