package kube_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/venturi-net/venturi/internal/cli"
	"github.com/venturi-net/venturi/internal/testenv/plain"
)

// The agents on the nodes of a fake cluster, and the plugin of kubectl, are this test binary.
func TestMain(m *testing.M) {
	name := filepath.Base(os.Args[0])
	if name == "venturi" || name == "kubectl-venturi" {
		os.Exit(cli.RunAs(context.Background(), name, &cli.Env{Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv, Environ: os.Environ, Exit: os.Exit}))
	}
	plain.WaitTogether() // each on a cluster of its own
	os.Exit(m.Run())
}
