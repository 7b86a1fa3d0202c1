package compare

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/venturi-net/venturi/internal/experiment"
	"github.com/venturi-net/venturi/internal/guest"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
	"github.com/venturi-net/venturi/internal/verr"
)

func TestMain(m *testing.M) {
	if code, ok := guest.Main(os.Args, os.Stderr); ok { // in a virtual machine of a path
		os.Exit(code)
	}
	testenv.Main(m, testenv.Roles{"agent": runAgent, "fastpath": agenttest.RunFastPath, "speaker": agenttest.RunSpeaker, "guest": agenttest.HoldGuest, "controller": playController, testenv.LineRole: testenv.PlaySSHLine})
}

// playController is a whole comparison in a process that can be killed: its
// arguments are its role, the lab's name and the request as JSON. Its agents
// are this binary once more.
func playController(args []string) int {
	var q Request
	if err := json.Unmarshal([]byte(args[2]), &q); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	exe, err := os.Executable()
	if err != nil {
		return 1
	}
	r, err := q.Resolve()
	if err != nil {
		return 1
	}
	_, _, err = Do(context.Background(), r, Host{LabName: args[1], Program: []string{exe}, Watch: deaf{}})
	if err != nil {
		verr.Print(os.Stderr, err)
	}
	return verr.Code(err)
}

// deaf watches nothing.
type deaf struct{}

func (deaf) Event(experiment.Event) {}
func (deaf) Say(string, ...any)     {}
