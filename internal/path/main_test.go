package path_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/venturi-net/venturi/internal/guest"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
)

func TestMain(m *testing.M) {
	if code, ok := guest.Main(os.Args, os.Stderr); ok {
		os.Exit(code)
	}
	testenv.Main(reporting{m}, testenv.Roles{
		"builder": builder, "speaker": agenttest.RunSpeaker, "fastpath": agenttest.RunFastPath, "guest": agenttest.HoldGuest, "inside": guestRole,
	})
}

// reporting runs the tests and then says which paths they carried, see
// TestKernels.
type reporting struct{ *testing.M }

func (r reporting) Run() int {
	code := r.M.Run()
	if agenttest.InGuest() {
		suite.tell()
		return code
	}
	return max(code, sumUp())
}

// builder raises a lab with the paths args[2:] and takes it down, over and
// over, until it is killed. The lab's name is args[1].
func builder(args []string) int {
	exe, err := os.Executable()
	for err == nil {
		var l *lab.Lab
		l, err = lab.Up(context.Background(), lab.Options{
			Name: args[1], Paths: args[2:], Services: 20, Program: []string{exe},
		})
		if err == nil {
			err = l.Down()
		}
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}
