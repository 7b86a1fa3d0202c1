package kube

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/verr"
)

// Of two runs that start in the same instant one measures and the other is told so, or waits
// for its end; what the first has made stays.
func TestStartAtOnce(t *testing.T) {
	t.Parallel() // it waits, on a cluster of its own
	for _, namespace := range []string{"", "lab"} {
		for _, wait := range []bool{false, true} {
			server, client := newAPIServer(t)
			server.addNamespace("lab")
			// Both have seen that nobody measures before one of them begins.
			looked := make(chan bool, 2)
			var both sync.WaitGroup
			both.Add(2)
			server.before = func(right string) {
				if right != "list batch/jobs" {
					return
				}
				select {
				case looked <- true:
					both.Done()
					both.Wait()
				default:
				}
			}
			q := testRequest(Plain, namespace)
			q.Wait = wait
			runs := make(chan *Placement, 2)
			failed := make(chan error, 2)
			for range 2 {
				go func() {
					p, err := client.Place(t.Context(), q)
					if err != nil {
						failed <- err
						return
					}
					runs <- p
				}()
			}
			first := <-runs
			if !wait {
				if err := <-failed; verr.Code(err) != verr.Busy || !strings.Contains(err.Error(), "venturi compare") {
					t.Errorf("-n %q: the other run: %v", namespace, err)
				}
			}
			if made := strings.Join(server.leftovers(), " "); strings.Count(made, first.run.id) != 4 || !strings.Contains(made, "job "+first.run.namespace+"/"+claimName) {
				t.Errorf("-n %q: of the first run there is %v", namespace, made)
			}
			testenv.Must(t, first.Close())
			if wait {
				testenv.Must(t, (<-runs).Close())
			}
			if left := server.leftovers(); !slices.Equal(left, []string{"namespace lab"}) {
				t.Errorf("-n %q: left %v", namespace, left)
			}
		}
	}
}

// A run without a namespace of the user's sees those that have one; what has the name of ours
// and is of no run is neither used nor removed.
func TestOtherNamespaces(t *testing.T) {
	t.Parallel() // it waits, on a cluster of its own
	server, client := newAPIServer(t)
	server.addNamespace("lab")
	p, err := client.Place(t.Context(), testRequest(Plain, "lab"))
	testenv.Must(t, err)
	if _, err := client.Place(t.Context(), testRequest(Plain, "")); verr.Code(err) != verr.Busy || !strings.Contains(err.Error(), "in namespace lab") {
		t.Errorf("beside a run with -n lab: %v", err)
	}
	testenv.Must(t, p.Close())
	server.addNamespace(claimName)
	if _, err := client.Place(t.Context(), testRequest(Plain, "")); err == nil || !strings.Contains(err.Error(), claimName) {
		t.Errorf("beside a namespace of that name: %v", err)
	}
	if left := server.leftovers(); !slices.Equal(left, []string{"namespace lab", "namespace " + claimName}) {
		t.Errorf("left %v", left)
	}
}
