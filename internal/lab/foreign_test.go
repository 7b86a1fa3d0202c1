package lab_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/verr"
)

// Who shares the folder of namespaces, and has another folder for labs, leaves a
// lab alone that is in use: its owner lives, or, when it is kept, something runs in it.
func TestSweepSparesForeign(t *testing.T) {
	testenv.Root(t)
	for what, o := range map[string]lab.Options{
		"owned, with agents": {AgentCommand: testenv.AgentCommand(t)},
		"owned, and empty":   {},
		"kept":               {AgentCommand: testenv.AgentCommand(t), Keep: true},
	} {
		o.Name, o.Paths = testenv.LabName(), []string{"routed"}
		l, err := lab.Up(t.Context(), o)
		testenv.Must(t, err)
		out, err := testenv.RunIsolated(t, lab.Folder, "stranger", l.Name)
		if err != nil {
			t.Errorf("%s: %v: %s", what, err, out)
		}
		if !hasTraces(t, l.Name) {
			t.Errorf("%s: it is gone", what)
		}
		for _, m := range l.Machines {
			if o.AgentCommand != nil {
				testenv.Must(t, agentAlive(m.AgentPid))
			}
		}
		if o.Keep {
			testenv.Must(t, lab.Remove(t.Context(), l.Name))
		} else {
			testenv.Must(t, l.Down())
		}
	}
}

func agentAlive(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Signal(syscall.Signal(0))
}

// stranger does to the lab args[1], which is somebody else's, all that could take it
// down.
func stranger(args []string) int {
	name, ctx := args[1], context.Background()
	if err := leavesAlone(ctx, name); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func leavesAlone(ctx context.Context, name string) error {
	removed, err := lab.Sweep(ctx)
	if err != nil || slices.Contains(removed, name) {
		return fmt.Errorf("sweep removed %v (%w)", removed, err)
	}
	infos, err := lab.List(ctx)
	if i := slices.IndexFunc(infos, func(i lab.Info) bool { return i.Name == name }); err != nil || i < 0 || infos[i].Status != lab.StatusRunning {
		return fmt.Errorf("List = %+v (%w), want %s as running", infos, err, name)
	}
	_, claim := lab.NewClaim(ctx, name)
	for what, err := range map[string]error{"take down": lab.Remove(ctx, name), "raise": claim} {
		var told *verr.Error
		if !errors.As(err, &told) || told.Code != verr.Busy || !strings.Contains(told.Reason, lab.Folder) {
			return fmt.Errorf("%s: %w, want that another venturi has it", what, err)
		}
	}
	return nil
}
