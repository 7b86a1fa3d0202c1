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

func TestForeignLedgerEntry(t *testing.T) {
	for name, text := range map[string]string{"transaction-1": `{"id":2}`, "notes": "text"} {
		if all, err := parseTransactions(map[string]string{name: text}); len(all) > 0 || err == nil {
			t.Errorf("%s: %+v, %v", name, all, err)
		}
	}
}
