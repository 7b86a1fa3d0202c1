package clustertest

import (
	"fmt"
	"slices"
	"syscall"
	"testing"

	"github.com/venturi-net/venturi/internal/testenv"
)

// A program that is killed comes back, as it does under an init system.
func TestClusterRestartsPrograms(t *testing.T) {
	c := Shared(t)
	for _, program := range []struct{ node, name string }{{"n1", "kubelet"}, {"n2", "kube-proxy"}} {
		before, err := c.PIDs(program.node, program.name)
		testenv.Must(t, err)
		if len(before) != 1 {
			t.Fatalf("%s runs as %v on %s", program.name, before, program.node)
		}
		testenv.Must(t, syscall.Kill(before[0], syscall.SIGKILL))
		await(t, program.name+" is back", func() (bool, string) {
			now, err := c.PIDs(program.node, program.name)
			return len(now) == 1 && !slices.Equal(now, before), fmt.Sprint(now, err)
		})
	}
}
