package kube

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
