package netcfg_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
)

func TestRun(t *testing.T) {
	_, n := testenv.Namespace(t)
	out, err := n.Run(t.Context(), netcfg.Command{Args: []string{"cat"}}, "what it reads")
	if err != nil || out != "what it reads" {
		t.Errorf("cat = %q, %v", out, err)
	}
	// It is in the namespace: there is no device but the loopback.
	out, err = n.Run(t.Context(), netcfg.Command{Args: []string{"cat", "/proc/net/dev"}}, "")
	if err != nil || strings.Count(out, ":") != 1 {
		t.Errorf("devices inside: %q, %v", out, err)
	}
}

func TestRunFails(t *testing.T) {
	_, n := testenv.Namespace(t)
	if _, err := n.Run(t.Context(), netcfg.Command{Args: []string{"cat", "/no/such/file"}}, ""); err == nil ||
		!strings.Contains(err.Error(), "No such file") {
		t.Errorf("the error does not hold what the program said: %v", err)
	}
	if _, err := n.Run(t.Context(), netcfg.Command{Args: []string{"/no/such/program"}}, ""); err == nil {
		t.Error("running what does not exist succeeded")
	}
}

// A program is killed when nobody waits for it any more.
func TestRunKilled(t *testing.T) {
	_, n := testenv.Namespace(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	if _, err := n.Run(ctx, netcfg.Command{Args: []string{"sleep", "60"}}, ""); err == nil {
		t.Error("sleep 60 ended well")
	}
	if time.Since(start) > long {
		t.Error("it was not killed")
	}
	if pids := processesIn(t, n); len(pids) != 0 {
		t.Errorf("still inside: %v", pids)
	}
}
