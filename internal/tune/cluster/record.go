package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/venturi-net/venturi/internal/kube"
	"github.com/venturi-net/venturi/internal/kube/cni"
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
	doubt   bool             // a write may come yet
}

// RecordedObject is an object that a transaction changes.
type RecordedObject struct {
	Object cni.Object      `json:"object"`
	Fields []FieldChange   `json:"fields"`
	Old    json.RawMessage `json:"old"` // all of it
}

// manager is the field manager of a transaction.
func (t *ClusterTxn) manager() string { return ownPrefix + strconv.Itoa(t.ID) }

const entryPrefix = "transaction-"

func entryName(id int) string { return entryPrefix + strconv.Itoa(id) }

// readTransactions gives the cluster's journal, the first transaction first.
func readTransactions(ctx context.Context, client *kube.Client) ([]*ClusterTxn, error) {
	entries, err := client.ReadLedger(ctx)
	if err != nil {
		return nil, err
	}
	return parseTransactions(entries)
}

func parseTransactions(entries map[string]string) (all []*ClusterTxn, err error) {
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		t := &ClusterTxn{}
		if err := json.Unmarshal([]byte(entries[name]), t); err != nil || entryName(t.ID) != name {
			return nil, verr.Wrap(verr.Failed, "cannot read the cluster's journal", fmt.Errorf("entry %s: %w", name, orInconsistent(err)),
				"somebody has changed ConfigMap "+kube.LedgerName+" in "+kube.LedgerNamespace+": mend it by hand")
		}
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b *ClusterTxn) int { return a.ID - b.ID })
	return all, nil
}

func orInconsistent(err error) error {
	if err == nil {
		return fmt.Errorf("its number is not that of its name")
	}
	return err
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

// save records what has become of a transaction. One of which nothing is left to undo goes.
func (t *ClusterTxn) save(ctx context.Context, client *kube.Client) error {
	return client.ChangeLedger(ctx, func(entries map[string]string) error {
		if len(t.Objects)+len(t.Nodes) == 0 {
			delete(entries, entryName(t.ID))
			return nil
		}
		return t.put(entries)
	})
}

func (t *ClusterTxn) put(entries map[string]string) error {
	text, err := json.Marshal(t)
	if err != nil {
		return err
	}
	entries[entryName(t.ID)] = string(text)
	return nil
}
