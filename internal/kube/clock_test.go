package kube

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/verr"
)

// addRunNamespace makes the namespace of a run whose Job is not there, of some age by the
// server's clock.
func (s *apiServer) addRunNamespace(age time.Duration) {
	r := &run{id: "abcde", command: "venturi compare"}
	n := r.namespaceObject()
	n.CreationTimestamp, n.UID = metav1.NewTime(time.Now().Add(s.clockSkew-age)), "0a1b2c3d-0000-0000-0000-000000000077"
	s.namespaces[n.Name] = n
}

// Whose namespace is young is about to have a Job, and whose is old was killed: by the server's
// clock, whatever ours says.
func TestSweepByTheServersClock(t *testing.T) {
	t.Parallel() // it waits, on a cluster of its own
	for _, skew := range []time.Duration{-24 * time.Hour, 0, 24 * time.Hour} {
		server, client := newAPIServer(t)
		server.clockSkew = skew
		server.addRunNamespace(5 * time.Second)
		_, err := client.Place(t.Context(), testRequest(Plain, ""))
		if verr.Code(err) != verr.Busy || !strings.Contains(err.Error(), "which began ") || strings.Contains(err.Error(), "24h") {
			t.Errorf("a clock off by %v, beside a young namespace: %v", skew, err)
		}
		if left := server.leftovers(); !slices.Equal(left, []string{"namespace " + claimName}) {
			t.Errorf("a clock off by %v, a young namespace: left %v", skew, left)
		}
		server.addRunNamespace(time.Hour)
		p, err := client.Place(t.Context(), testRequest(Plain, ""))
		if err != nil {
			t.Errorf("a clock off by %v, beside an old namespace: %v", skew, err)
			continue
		}
		testenv.Must(t, p.Close())
	}
}

// A run that waits names the other at once and again later, with how long it has lasted and may last.
func TestWaitTells(t *testing.T) {
	t.Parallel() // it waits, on a cluster of its own
	server, client := newAPIServer(t)
	server.addNamespace("lab")
	p, err := client.Place(t.Context(), testRequest(Plain, "lab"))
	testenv.Must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), host.ScaleTimeout(time.Minute))
	defer cancel()
	q := testRequest(Plain, "lab")
	q.Wait = true
	var said []string
	q.Say = func(format string, args ...any) {
		if said = append(said, fmt.Sprintf(format, args...)); len(said) == 2 {
			cancel()
		}
		server.AdvanceClock(2 * time.Minute)
	}
	if _, err := client.Place(ctx, q); err == nil {
		t.Error("it did not wait")
	}
	for i, want := range []string{"s ago and ends within ", "which began 2m"} {
		if len(said) <= i || !strings.HasPrefix(said[i], "waiting for venturi compare in namespace lab, which began ") || !strings.Contains(said[i], want) {
			t.Errorf("without %q: it said %q", want, said)
		}
	}
	testenv.Must(t, p.Close())
}
