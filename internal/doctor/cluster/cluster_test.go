package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/agent"
	"github.com/venturi-net/venturi/internal/doctor"
	"github.com/venturi-net/venturi/internal/fleet"
	"github.com/venturi-net/venturi/internal/kube"
	"github.com/venturi-net/venturi/internal/remote"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/verr"
)

// fakeNode is what doctor does on a node.
type fakeNode func(agent.Invocation) int

// answers finds nothing.
func answers(i agent.Invocation) int {
	fmt.Fprint(i.Stdout, `{"version":1,"findings":[],"kube_proxy":"nftables"}`)
	return verr.OK
}

// stream gives a stream to an agent of this host, as one in a pod has; nil: one that ends at once.
func (run fakeNode) stream(t *testing.T, name string) net.Conn {
	t.Helper()
	mine, theirs := net.Pipe()
	if run == nil {
		_ = theirs.Close()
		return mine
	}
	served := make(chan error, 1)
	go func() {
		served <- agent.Stdio(context.Background(), theirs, theirs, "", agent.Options{Machine: name, Run: func(_ context.Context, i agent.Invocation) int { return run(i) }})
	}()
	t.Cleanup(func() {
		_ = theirs.Close()
		if err := <-served; err != nil && !errors.Is(err, io.EOF) {
			t.Errorf("the agent of %s: %v", name, err)
		}
	})
	testenv.Must(t, remote.Await(mine))
	return mine
}

// A node that fails, at whatever moment, costs the report that node alone, and is named.
func TestExamineWithBadNodes(t *testing.T) {
	t.Parallel() // it waits for a node that does not answer
	for name, bad := range map[string]fakeNode{
		"ends at once": nil,
		"doctor fails": func(i agent.Invocation) int {
			verr.Print(i.Stderr, verr.New(verr.Failed, "cannot examine it", "the disk is full", "mend it"))
			return verr.Failed
		},
		"no report": func(i agent.Invocation) int { fmt.Fprint(i.Stdout, "{"); return verr.OK },
		"no device": answers, // with the address of the node
	} {
		r := &ClusterReport{}
		e := exam{args: []string{"doctor"}}
		var streams []net.Conn
		for i, run := range []fakeNode{answers, bad, answers} {
			node := kube.ClusterNode{Name: fmt.Sprintf("n%d", i)}
			if name == "no device" && i == 1 {
				node.Addr = netip.MustParseAddr("192.0.2.77")
			}
			e.nodes = append(e.nodes, node)
			streams = append(streams, run.stream(t, node.Name))
		}
		var failed []error
		e.fleet, failed = fleet.FromStreams(t.Context(), []string{"n0", "n1", "n2"}, streams)
		defer e.fleet.Close()
		e.drop(failed, &r.Cluster)
		if err := e.examine(t.Context(), r); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := names(r.Cluster.Nodes); !slices.Equal(got, []string{"n0", "n2"}) || !slices.Equal(r.Machines, got) || r.Cluster.Nodes[1].ProxyMode != "nftables" {
			t.Errorf("%s: examined %v, %+v", name, r.Machines, r.Cluster)
		}
		if !slices.ContainsFunc(r.Findings, func(f doctor.Finding) bool { return f.Code == "node-not-examined" && f.Place == "node n1" }) || r.ExitCode() != verr.OK {
			t.Errorf("%s: found %+v, exit code %d", name, r.Findings, r.ExitCode())
		}
		if len(r.Cluster.Unreached) != 1 || strings.TrimSpace(r.Cluster.Unreached[0].Reason) == "" {
			t.Errorf("%s: not reached: %+v", name, r.Cluster.Unreached)
		}
	}
}

// Where no node can be examined there is no report, but the reason of one.
func TestExamineNoNode(t *testing.T) {
	t.Parallel() // it waits for a node that does not answer
	e := exam{args: []string{"doctor"}, nodes: []kube.ClusterNode{{Name: "n0"}}}
	r := &ClusterReport{}
	var failed []error
	e.fleet, failed = fleet.FromStreams(t.Context(), []string{"n0"}, []net.Conn{fakeNode(nil).stream(t, "n0")})
	defer e.fleet.Close()
	e.drop(failed, &r.Cluster)
	if err := e.examine(t.Context(), r); verr.Code(err) != verr.Failed || !strings.Contains(err.Error(), "n0: ") || r.Report != nil {
		t.Errorf("%v, %+v", err, r.Report)
	}
}
