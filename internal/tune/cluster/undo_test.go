package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/agent"
	"github.com/venturi-net/venturi/internal/fleet"
	"github.com/venturi-net/venturi/internal/kube/cni"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
	"github.com/venturi-net/venturi/internal/verr"
)

// What somebody else has changed on a node since is a conflict, which another attempt meets, too;
// that a node fails, or is gone, is none.
func TestNodeConflict(t *testing.T) {
	for code, want := range map[int]int{verr.Partial: verr.Partial, verr.Busy: verr.Failed, verr.OK: verr.OK} {
		run := func(_ context.Context, i agent.Invocation) int {
			if i.Args[0] == "journal" {
				fmt.Fprintln(i.Stdout, `{"transactions":[{"id":7,"command":"tune --token abc"}]}`)
				return verr.OK
			}
			if !slices.Equal(i.Args, []string{"undo", "7"}) {
				t.Errorf("the node was told %q", i.Args)
			}
			if code != verr.OK {
				verr.Print(i.Stderr, verr.New(code, "1 of 1 values were not undone", "for a reason", "do something"))
			}
			return code
		}
		nodes := &nodeFleet{Fleet: fleet.Attach([]string{"n1"}, []*agent.Client{agenttest.Start(t, agent.Options{Machine: "n1", Run: run})}), names: []string{"n1"}}
		txn := &ClusterTxn{ID: 1, Token: "abc", Nodes: []string{"n1"}}
		outcomes := txn.undoNodes(t.Context(), nodes, nil, RestoreOptions{})
		err := openError([]UndoResult{{Txn: 1, Nodes: outcomes}})
		if verr.Code(err) != want || (len(txn.Nodes) > 0) != (code != verr.OK) {
			t.Errorf("with exit code %d: %v, left %v", code, err, txn.Nodes)
		}
		if want == verr.Partial && !strings.Contains(err.Error(), "on nodes n1") {
			t.Errorf("the error is %v", err)
		}
	}
}

// What one of two who undo a transaction has closed stays closed, whatever the other one has read.
func TestNarrow(t *testing.T) {
	object := func(name string, fields ...string) RecordedObject {
		o := RecordedObject{Object: cni.Object{Name: name}}
		for _, f := range fields {
			o.Fields = append(o.Fields, FieldChange{Path: FieldPath{"data", f}})
		}
		return o
	}
	now := &ClusterTxn{Nodes: []string{"b", "c"}, Objects: []RecordedObject{object("x", "1", "2"), object("y", "1")}}
	now.narrow(&ClusterTxn{Nodes: []string{"a", "b"}, Objects: []RecordedObject{object("x", "2", "3"), object("z", "1")}})
	if !slices.Equal(now.Nodes, []string{"b"}) || len(now.Objects) != 1 || len(now.Objects[0].Fields) != 1 || now.Objects[0].Fields[0].Path.String() != "data.2" {
		t.Errorf("left: %+v", now)
	}
}
