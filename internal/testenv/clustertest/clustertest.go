// Package clustertest lends tests a Kubernetes cluster. Their names begin with TestCluster,
// and `make test-cluster` runs them.
package clustertest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/cluster"
)

// VenturiImage is the image of this tree's venturi, which the nodes of [Shared] have.
const VenturiImage = "venturi.test/venturi:1"

// Shared is the cluster that `make test-cluster` has raised for all tests: these leave it as
// they found it. The test is skipped where there is none.
func Shared(t testing.TB) *cluster.Raised {
	t.Helper()
	testenv.Root(t)
	name := os.Getenv(cluster.NameVariable)
	if name == "" {
		t.Skip("needs a Kubernetes cluster: `make test-cluster` runs it")
	}
	c, err := cluster.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Raise raises a cluster of the test's own, whose nodes have the images of [Shared]. It ends
// with the test, which fails if anything is left of it, and with this process however that ends.
func Raise(t testing.TB, o cluster.Options) *cluster.Raised {
	t.Helper()
	o.Images = append(o.Images, Shared(t).Images...)
	if o.Name == "" {
		o.Name = testenv.LabName()
	}
	lifeline, hold, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer lifeline.Close()
	t.Cleanup(func() {
		hold.Close()
		if err := cluster.Down(o.Name); err != nil {
			t.Error(err)
		}
	})
	c, err := cluster.Start(t.Context(), Program(t), o, lifeline, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Down(o.Name); err != nil {
			t.Error(err)
		}
		checkNothingLeft(t, c)
	})
	return c
}

// Program builds clusterd, which is to be static: it is the program of containers, too.
func Program(t testing.TB) string {
	t.Helper()
	exe := filepath.Join(t.TempDir(), "clusterd")
	cmd := exec.Command("go", "build", "-buildvcs=false", "-o", exe, "github.com/venturi-net/venturi/internal/testenv/cluster/clusterd")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build clusterd: %v\n%s", err, out)
	}
	return exe
}
