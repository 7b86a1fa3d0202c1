package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// While a thousand pods are made beside it, a run keeps its channels, which the API server forwards, and
// measures what it measures without them: nothing of that passes there. In one of a few runs its intervals
// overlap those of a run before.
func TestClusterBusyAPIServer(t *testing.T) {
	const enough, runs = 1000, 4
	s := newSamePods(t)
	length := []string{"--series", "6", "--rounds", "4"}
	before := s.byCluster(t, length...)
	made := s.makePods(t)
	apart := slices.Clone(agreeLoads)
	for n := 0; len(apart) > 0 || made() < enough; n++ {
		if n == runs {
			t.Fatalf("after %d runs, beside which %d pods were made, the intervals of %v never overlapped", n, made(), apart)
		}
		for load, now := range s.byCluster(t, length...) {
			was := before[load]
			t.Logf("%s, pod to host: %.3f [%.3f, %.3f], beside %d pods %.3f [%.3f, %.3f]", load, was.Value, was.Lo, was.Hi, made(), now.Value, now.Lo, now.Hi)
			if !now.Open && !was.Open && now.Lo <= was.Hi && was.Lo <= now.Hi {
				apart = slices.DeleteFunc(apart, func(name string) bool { return name == load })
			}
		}
	}
	s.nothingLeft(t, 0, everything...)
}

// makePods makes pods until the test is over, as fast as the API server takes them and no more than it can
// keep, and tells how many there are. The scheduler looks at each; no node takes any.
func (s *samePods) makePods(t *testing.T) (made func() int64) {
	t.Helper()
	const workers, most = 8, 1500
	pods := "/api/v1/namespaces/" + s.plugin.namespace(t, "privileged") + "/pods"
	ctx, cancel := context.WithCancel(t.Context())
	var number, count atomic.Int64
	var all sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		all.Wait()
		await(t, "the pods are deleted", func() bool { return s.Request(context.Background(), http.MethodDelete, pods, nil, nil) == nil })
	})
	for range workers {
		all.Go(func() {
			for i := number.Add(1); i <= most && ctx.Err() == nil; i = number.Add(1) {
				err := s.Request(ctx, http.MethodPost, pods, map[string]any{"apiVersion": "v1", "kind": "Pod",
					"metadata": map[string]any{"name": fmt.Sprint("busy-", i)},
					"spec": map[string]any{"nodeSelector": map[string]any{"example.com/none": "yes"},
						"containers": []any{map[string]any{"name": "none", "image": "example.com/none"}}}}, nil)
				if ctx.Err() != nil {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				count.Add(1)
			}
		})
	}
	return count.Load
}
