package cluster

import (
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/kube/cni"
)

// TestLedgerOfOtherVersions: entries of earlier versions are read, and one of a later version, which knows
// more, costs itself alone: to write it anew would lose what is not known.
func TestLedgerOfOtherVersions(t *testing.T) {
	all, err := parseTransactions(map[string]string{
		"transaction-1": `{"id":1,"token":"a","objects":[{"object":{"Group":"apps","Version":"v1","Resource":"daemonsets","Namespace":"n","Name":"d"},"fields":[],"old":{}}]}`,
		"transaction-2": `{"id":2,"token":"b","version":"7.1","lease":{"renewed":"2027-01-01T00:00:00Z"}}`,
		"transaction-3": `{"id":3,"token":"c"}`,
	})
	if len(all) != 2 || all[0].ID != 1 || all[1].ID != 3 {
		t.Fatalf("%+v", all)
	}
	if want := (cni.Object{Group: "apps", Version: "v1", Resource: "daemonsets", Namespace: "n", Name: "d"}); all[0].Objects[0].Object != want {
		t.Errorf("%+v", all[0].Objects)
	}
	if err == nil || !strings.Contains(err.Error(), "entry transaction-2, written by venturi 7.1") {
		t.Errorf("%v", err)
	}
}

// TestLedgerHasFieldsOnly: the journal says what was in the fields that change, and nothing else of the
// object, such as its environment: also where an earlier version recorded that.
func TestLedgerHasFieldsOnly(t *testing.T) {
	object := cni.Object{Group: "apps", Version: "v1", Resource: "daemonsets", Namespace: "n", Name: "d"}
	whole := map[string]any{"spec": map[string]any{"mode": "a", "env": "secret"}}
	fields := []FieldChange{{Path: FieldPath{"spec", "mode"}, Old: "a", New: "b"}}
	now := &ClusterTxn{ID: 1}
	now.record([]ObjectChange{{Object: object, Fields: fields, live: liveObject{tunable{Object: object}, whole}}})
	earlier, err := parseTransaction("transaction-2", `{"id":2,"objects":[{"object":{"Name":"d"},"fields":[{"path":["spec","mode"],"old":"a","new":"b"}],"old":{"spec":{"mode":"a","env":"secret"}}}]}`)
	if err != nil {
		t.Fatal(err)
	}
	for _, txn := range []*ClusterTxn{now, earlier} {
		_, back, left := txn.planRestore(map[string]any{"spec": map[string]any{"mode": "b"}}, txn.Objects[0], RestoreOptions{})
		if len(back) != 1 || back[0].Old != "a" || len(left) > 0 {
			t.Errorf("transaction %d puts back %+v, and leaves %+v", txn.ID, back, left)
		}
		entries := map[string]string{}
		if err := txn.put(entries); err != nil || !strings.Contains(entries[entryName(txn.ID)], `"old":"a"`) || strings.Contains(entries[entryName(txn.ID)], "secret") {
			t.Errorf("%s, %v", entries, err)
		}
	}
}

func TestForeignLedgerEntry(t *testing.T) {
	for name, text := range map[string]string{"transaction-1": `{"id":2}`, "notes": "text"} {
		if all, err := parseTransactions(map[string]string{name: text}); len(all) > 0 || err == nil {
			t.Errorf("%s: %+v, %v", name, all, err)
		}
	}
}
