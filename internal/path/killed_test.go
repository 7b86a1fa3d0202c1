package path_test

import (
	"bytes"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/change"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
)

// kills is how often a lab is killed while it is being built or taken down.
const kills = 25

// Whenever a process that builds a lab is killed, a sweep finds and removes
// all that it left.
func TestKilledWhileBuilding(t *testing.T) {
	testenv.Root(t)
	command := testenv.RoleCommand(t, "builder")
	halfBuilt := 0
	for range kills {
		name := testenv.LabName()
		if killBuilder(t, command, name) {
			halfBuilt++
		}
		removed, err := lab.Sweep(t.Context())
		if err != nil {
			t.Fatalf("sweep: %v", err)
		}
		nothingOf(t, name)
		if again, err := lab.Sweep(t.Context()); err != nil || slices.Contains(again, name) {
			t.Fatalf("second sweep: %v, %v (the first removed %v)", again, err, removed)
		}
	}
	if halfBuilt == 0 {
		t.Errorf("of %d builders not one was killed with a lab half built: the test proves nothing", kills)
	}
}

// killBuilder kills a builder some time after its start and tells whether
// there was something of its lab then.
func killBuilder(t *testing.T, command []string, name string) (left bool) {
	t.Helper()
	cmd := exec.Command(command[0], append(command[1:], name)...)
	var said bytes.Buffer
	cmd.Stderr = &said
	must(t, cmd.Start())
	time.Sleep(time.Duration(rand.IntN(250)) * time.Millisecond)
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	if said.Len() > 0 {
		t.Fatalf("builder: %s", &said)
	}
	return len(namespacesOf(t, name)) > 0
}

func namespacesOf(t *testing.T, name string) []string {
	t.Helper()
	all, err := change.Namespaces()
	must(t, err)
	return slices.DeleteFunc(all, func(n string) bool { return !strings.HasPrefix(n, change.Mark+name+".") })
}

func nothingOf(t *testing.T, name string) {
	t.Helper()
	if left := namespacesOf(t, name); len(left) > 0 {
		t.Errorf("namespaces are left: %v", left)
	}
	labs, err := lab.List(t.Context())
	must(t, err)
	for _, l := range labs {
		if l.Name == name {
			t.Errorf("lab is still listed: %+v", l)
		}
	}
}
