package cli

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/venturi-net/venturi/internal/display"
	"github.com/venturi-net/venturi/internal/fleet"
	"github.com/venturi-net/venturi/internal/testenv"
)

// What commands print of their transactions is what is read of it from another machine.
func TestRemoteTxns(t *testing.T) {
	printed := display.Transactions{Txns: []display.Transaction{{ID: 7, Command: "venturi knob set"}, {ID: 8}}}
	want := []fleet.RemoteTxn{{ID: 7, Command: "venturi knob set"}, {ID: 8}}
	for _, told := range []any{printed, display.CommitResult{Transactions: printed}} {
		text, err := json.Marshal(told)
		testenv.Must(t, err)
		if got, err := (fleet.Reply{Stdout: text}).Txns(); err != nil || !slices.Equal(got, want) {
			t.Errorf("of %s it reads %v, %v", text, got, err)
		}
	}
}
