package mesh

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/venturi-net/venturi/internal/agent"
	"github.com/venturi-net/venturi/internal/kube"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

// ClusterRequest says which nodes of a cluster are measured, and how.
type ClusterRequest struct {
	Options
	Access kube.Access
	Nodes  kube.NodesRequest
}

// setupTime is how long pods may live beside what is measured.
const setupTime = 15 * time.Minute

// MeasureCluster puts an agent on every node of a cluster, measures all pairs, and removes the
// agents again. Errors are for people; what was measured before one is in the report.
func MeasureCluster(ctx context.Context, q ClusterRequest) (r *Survey, err error) {
	if err := q.Access.Check(); err != nil {
		return nil, err
	}
	if err := q.Nodes.Check(); err != nil {
		return nil, err
	}
	client, err := kube.Open(q.Access)
	if err != nil {
		return nil, err
	}
	q.Nodes.Traffic = true
	q.Nodes.Plan = func(nodes []kube.ClusterNode) (time.Duration, error) {
		mesh := make([]Member, len(nodes))
		for i, n := range nodes {
			mesh[i] = Member{Name: n.Name, Zone: n.Zone}
		}
		o, err := q.Options.complete(mesh)
		return setupTime + 2*o.Budget, err
	}
	on, err := client.PlaceOnNodes(ctx, q.Nodes)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, on.Close()) }()
	ends := make([]end, len(on.Agents))
	for i, a := range on.Agents {
		ends[i] = end{node: Member{Name: a.Node, Zone: on.Nodes[i].Zone}, stream: a.Stream, location: agent.Location{Option: "node", Namespace: on.Ends[i].Netns, Addr: on.Ends[i].Addr}}
	}
	r, err = measureEnds(ctx, ends, nil, q.Options)
	if r == nil {
		return nil, err
	}
	r.Network = map[kube.Level]string{kube.Plain: "pods", kube.Node: "nodes"}[q.Nodes.Level]
	for _, n := range on.Unreached {
		r.Lost = append(r.Lost, LostNode{n.Name, n.Reason})
	}
	return r, err
}

// end is an end of traffic, whose agent is behind a stream.
type end struct {
	node     Member
	stream   net.Conn
	location agent.Location
	reach    func(context.Context) error // opens the stream; nil: it is open
	client   *agent.Client
	addrs    []netip.Addr // that it may have
	err      error        // why it is not measured
}

// lockMachines makes sure that nobody else measures on the machines of some agents. It gives the errors by client.
type lockMachines func(context.Context, []*agent.Client) []error

// measureEnds speaks to the agents, measures, and hangs up. An end that cannot be measured costs
// itself alone. Without lock, nobody else measures there.
func measureEnds(ctx context.Context, ends []end, lock lockMachines, o Options) (*Survey, error) {
	defer func() {
		for _, e := range ends {
			if e.client != nil {
				_ = e.client.Close() // the stream is closed by whoever opened it
			}
		}
	}()
	reachEnds(ctx, ends, lock)
	var nodes []Member
	var lost []LostNode
	var clients []*agent.Client
	code := verr.Failed // if too few can be measured
	for _, e := range ends {
		if e.err != nil {
			if len(lost) == 0 {
				code = verr.Code(e.err)
			}
			lost = append(lost, LostNode{e.node.Name, e.err.Error()})
			continue
		}
		nodes, clients = append(nodes, e.node), append(clients, e.client)
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if len(nodes) < 2 && len(lost) > 0 {
		return nil, verr.New(code, "cannot measure any pair of nodes", lost[0].Name+": "+lost[0].Reason, "run the command again, or choose other nodes")
	}
	channels, err := agent.WatchEach(ctx, clients...)
	if err != nil {
		return nil, err
	}
	defer channels.Close()
	samples, err := Measure(ctx, nodes, o, channels)
	if samples == nil {
		return nil, err
	}
	if err != nil {
		err = context.Cause(ctx)
	}
	r := samples.Report(o.Margin, o.Seed)
	r.Lost = append(r.Lost, lost...)
	return r, err
}

// reachEnds makes ends ready to be measured: all of them are reached before the first is locked, which may wait for
// others, and all have addresses before routes between them are looked for.
func reachEnds(ctx context.Context, ends []end, lock lockMachines) {
	forEachEnd(healthy(ends), func(e *end) error { return e.open(ctx) })
	if lock != nil {
		there := healthy(ends)
		clients := make([]*agent.Client, len(there))
		for i, e := range there {
			clients[i] = e.client
		}
		for i, err := range lock(ctx, clients) {
			there[i].err = err
		}
	}
	forEachEnd(healthy(ends), func(e *end) error { return e.find(ctx) })
	there := healthy(ends)
	peers := map[*end][]netip.Addr{}
	for i, e := range there {
		for k := 1; k < len(there) && k <= mostPeers; k++ {
			peers[e] = append(peers[e], there[(i+k)%len(there)].addrs...)
		}
	}
	forEachEnd(there, func(e *end) error { return e.locate(ctx, peers[e]) })
}

// healthy lists the ends that can be measured, as far as is known.
func healthy(ends []end) (there []*end) {
	for i := range ends {
		if ends[i].err == nil {
			there = append(there, &ends[i])
		}
	}
	return there
}

// forEachEnd does something with all ends at once, and notes the errors.
func forEachEnd(ends []*end, do func(*end) error) {
	var doing sync.WaitGroup
	for _, e := range ends {
		doing.Go(func() { e.err = do(e) })
	}
	doing.Wait()
}

// open begins to speak to the agent.
func (e *end) open(ctx context.Context) (err error) {
	if e.reach != nil {
		if err := e.reach(ctx); err != nil {
			return err
		}
	}
	e.client, err = agent.DialStream(ctx, e.stream, e.node.Name)
	return err
}

// find finds the addresses that the end may have.
func (e *end) find(ctx context.Context) error {
	found, err := e.client.Locate(ctx, e.location)
	e.addrs = found.Addrs
	return err
}

// mostPeers is towards how many others an end looks for its route: one of them may have none.
const mostPeers = 8

// locate chooses the address and device of the end, by the route towards others.
func (e *end) locate(ctx context.Context, peers []netip.Addr) error {
	e.location.PeerAddrs, e.location.PeerNamespace = peers, "the other nodes"
	found, err := e.client.Locate(ctx, e.location)
	e.node.End, e.node.Agent = found.Endpoint, &watched{Client: e.client}
	return err
}

// watched is an agent that notes when it is gone.
type watched struct {
	*agent.Client
	loss atomic.Pointer[error]
}

func (w *watched) note(err error) {
	if agent.IsGone(err) {
		w.loss.CompareAndSwap(nil, &err)
	}
}

// Serve is of [experiment.ServerAgent].
func (w *watched) Serve(ctx context.Context, p load.Plan, meters []string) (map[int]error, error) {
	shut, err := w.Client.Serve(ctx, p, meters)
	w.note(err)
	return shut, err
}

// Run is of [experiment.ClientAgent].
func (w *watched) Run(ctx context.Context, p load.Plan, meters []string) ([]load.SliceResult, []result.Meter, error) {
	slices, sums, err := w.Client.Run(ctx, p, meters)
	w.note(err)
	return slices, sums, err
}

// Finish is of [experiment.ServerAgent].
func (w *watched) Finish(ctx context.Context, token uint64) ([]result.Meter, error) {
	sums, err := w.Client.Finish(ctx, token)
	w.note(err)
	return sums, err
}

// LossReason is of [Peer].
func (w *watched) LossReason() error {
	if why := w.loss.Load(); why != nil {
		return *why
	}
	return w.Client.LossReason()
}
