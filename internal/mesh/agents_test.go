package mesh

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/agent"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/remote"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
	"github.com/venturi-net/venturi/internal/verr"
)

func TestMain(m *testing.M) { testenv.Main(m, testenv.Roles{"agent": agenttest.RunAgent}) }

// lanNode is a namespace on a bridge that all have in common, and an agent for it.
type lanNode struct {
	*netcfg.Namespace
	addr  netip.Addr
	agent *remote.Process
}

// lan makes so many of them.
func lan(t *testing.T, count int) (nodes []*lanNode) {
	t.Helper()
	program := testenv.Program(t)
	for i, in := range testenv.LAN(t, "198.18.0", count) {
		n := &lanNode{Namespace: in, addr: netip.AddrFrom4([4]byte{198, 18, 0, byte(i + 1)})}
		var err error
		n.agent, err = remote.OpenHere(t.Context(), fmt.Sprint("n", i), program, testenv.Timeout)
		testenv.Must(t, err)
		t.Cleanup(func() { _ = n.agent.Close() })
		nodes = append(nodes, n)
	}
	return nodes
}

// ends are those of traffic between the nodes.
func ends(nodes []*lanNode) (all []end) {
	for i, n := range nodes {
		all = append(all, end{node: Member{Name: fmt.Sprint("n", i)}, stream: n.agent, location: agent.Location{Option: "machine", Namespace: "ns:" + n.Path(), Addr: n.addr}})
	}
	return all
}

// shortOptions are for a machine that plays all nodes, and may be busy: only what is several times
// slower counts.
func shortOptions(t *testing.T, loads ...string) Options {
	o := options(t, loads...)
	for i := range o.Loads {
		o.Loads[i].Slice, o.Loads[i].Head = 8*time.Millisecond, 2*time.Millisecond
	}
	o.Margin, o.Parallel, o.Budget = 2, 2, 5*time.Minute
	return o
}

// Between real agents, a node whose card is slow is named, two nodes without a route, and an agent
// that is killed meanwhile; and nothing else is.
func TestAgents(t *testing.T) {
	nodes := lan(t, 8)
	const slow, killed = 3, 6
	testenv.Shell(t, nodes[slow].Path(), "tc qdisc add dev eth0 root tbf rate 60mbit burst 32kb latency 50ms")
	for _, p := range [][2]int{{1, 5}, {5, 1}} {
		testenv.Shell(t, nodes[p[0]].Path(), "ip route add unreachable "+nodes[p[1]].addr.String())
	}
	o := shortOptions(t, "tcp_bw")
	o.Passes = 5
	o.Say = func(format string, args ...any) {
		t.Logf(format, args...)
		if strings.HasPrefix(format, "pass") && args[0] == 2 {
			nodes[killed].agent.Kill()
		}
	}
	r, err := measureEnds(t.Context(), ends(nodes), nil, o)
	if err != nil {
		t.Fatal(err)
	}
	l := r.Loads[0]
	if n := l.SlowNodes(); len(n) != 1 || n[0].Node != slow {
		t.Errorf("slow nodes: %+v", n)
	}
	if p := l.SlowPairs(); len(p) > 0 {
		t.Errorf("slow pairs: %+v", p)
	}
	if len(r.Lost) != 1 || r.Lost[0].Name != fmt.Sprint("n", killed) {
		t.Errorf("lost: %+v", r.Lost)
	}
	if pairs := brokenNames(r); len(pairs) != 1 || !pairs["n1 n5"] {
		t.Errorf("broken: %+v", r.Broken)
	}
	if r.Passes != o.Passes || r.ExitCode() != verr.Findings {
		t.Errorf("%d passes, exit code %d", r.Passes, r.ExitCode())
	}
}

func brokenNames(r *Survey) map[string]bool {
	pairs := map[string]bool{}
	for _, b := range r.Broken {
		pairs[min(b.From, b.To)+" "+max(b.From, b.To)] = true
	}
	return pairs
}

// A node on which somebody else measures, or without its address, costs itself alone; and an
// interruption leaves what was measured.
func TestAgentsMissing(t *testing.T) {
	nodes := lan(t, 5)
	all := ends(nodes)
	lock := func(_ context.Context, clients []*agent.Client) []error {
		errs := make([]error, len(clients))
		errs[1] = errors.New("busy")
		return errs
	}
	all[2].location.Addr = netip.MustParseAddr("198.18.0.77")
	o := shortOptions(t, "udp_lat")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o.Say = func(format string, args ...any) {
		t.Logf(format, args...)
		if strings.HasPrefix(format, "pass") && args[0] == 3 {
			cancel()
		}
	}
	r, err := measureEnds(ctx, all, lock, o)
	if err == nil || r == nil {
		t.Fatalf("report %v, %v", r, err)
	}
	if len(r.Nodes) != 3 || len(r.Loads[0].Pairs) != 3 || len(r.Lost) != 2 || r.Lost[0].Name != "n1" || r.Lost[1].Name != "n2" {
		t.Errorf("nodes %+v, %d pairs, lost %+v", r.Nodes, len(r.Loads[0].Pairs), r.Lost)
	}
}

// Fifty agents: every pair is measured, and the node that is slow is named.
//
// Two cores play all of them, and an agent that does not answer within three seconds is lost. So few
// pairs run at a time, and messages rather than streams, which keep a core busy each. A message takes
// four milliseconds or more to leave the slow node, which none takes between the others, however busy
// the machine is.
func TestFiftyAgents(t *testing.T) {
	testenv.NeedsLong(t)
	const count, slow, parallel, passes = 50, 17, 8, 3
	nodes := lan(t, count)
	testenv.Shell(t, nodes[slow].Path(), "tc qdisc add dev eth0 root tbf rate 128kbit burst 1600 limit 64kb")
	o := options(t, "tcp_lat")
	o.Passes, o.Parallel, o.Margin, o.Budget = passes, parallel, 1, 25*time.Minute
	r, err := measureEnds(t.Context(), ends(nodes), nil, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d passes in %d rounds took %v", r.Passes, r.Rounds, time.Duration(r.TookNs).Round(time.Second))
	if each := (count/2 + parallel - 1) / parallel; r.Rounds != passes*(count-1)*each || len(r.Lost)+len(r.Broken) > 0 {
		t.Errorf("%d rounds, lost %+v, broken %+v", r.Rounds, r.Lost, r.Broken)
	}
	l := r.Loads[0]
	if len(l.Pairs) != count*(count-1)/2 {
		t.Errorf("%d pairs", len(l.Pairs))
	}
	if n := l.SlowNodes(); len(n) != 1 || n[0].Node != slow {
		t.Errorf("slow nodes: %+v; of all: %+v", n, l.Nodes)
	}
}
