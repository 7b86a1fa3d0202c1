package lab_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/verr"
)

// A path that does not come up is told in three parts, with what its daemon
// said last and how to try it alone; and nothing of the lab is left.
func TestPathFails(t *testing.T) {
	testenv.Root(t)
	o := lab.Options{Name: testenv.LabName(), Paths: []string{"host", "bgp:hold=9", "routed"}, Program: []string{"/bin/false"}}
	_, err := lab.Up(t.Context(), o)
	checkRefusal(t, err, verr.Failed, "false ended (exit status 1)")
	var told *verr.Error
	if !errors.As(err, &told) || told.Summary != "cannot raise path bgp" || told.Hint != "try it alone with: venturi lab up bgp:hold=9" {
		t.Errorf("told %+v", told)
	}
	if hasTraces(t, o.Name) {
		t.Error("something of the lab is there")
	}
}

// Who interrupts is not told that a path failed.
func TestUpInterrupted(t *testing.T) {
	testenv.Root(t)
	ctx, cancel := context.WithCancel(t.Context())
	// The speaker never says anything: the path waits for it.
	o := lab.Options{Name: testenv.LabName(), Paths: []string{"bgp"}, Program: testenv.RoleCommand(t, "mute")}
	time.AfterFunc(300*time.Millisecond, cancel)
	_, err := lab.Up(ctx, o)
	var told *verr.Error
	if !errors.Is(err, context.Canceled) || errors.As(err, &told) {
		t.Errorf("Up = %v, want that it was interrupted", err)
	}
	if hasTraces(t, o.Name) {
		t.Error("something of the lab is there")
	}
}

// An arm may be called as a file that the lab itself keeps, or a daemon does.
func TestOddNames(t *testing.T) {
	testenv.Root(t)
	testenv.Lab(t, lab.Options{
		Paths: []string{"ovs-vlan:datapath=netdev", "ovs-vlan:datapath=netdev"}, Names: []string{"log", "sock"},
		AgentCommand: testenv.AgentCommand(t),
	})
}
