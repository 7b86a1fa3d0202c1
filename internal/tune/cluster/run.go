package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/venturi-net/venturi/internal/fleet"
	"github.com/venturi-net/venturi/internal/kube"
	"github.com/venturi-net/venturi/internal/kube/cni"
	"github.com/venturi-net/venturi/internal/tune"
	"github.com/venturi-net/venturi/internal/verr"
)

// TuningRequest is what to tune.
type TuningRequest struct {
	Access  kube.Access
	Nodes   kube.NodesRequest
	Profile tune.Profile
	Apply   bool // the changes are to be made: what it takes is checked before anything else
	Cluster bool // the objects of the API
	// Trial is how long the changes stay without being confirmed; 0: it is no trial.
	Trial  time.Duration
	Cilium cni.Object // where Cilium has its settings
	// NodeArgs are the arguments of the command that tunes a node, without what says whether it
	// plans or applies. None: no node is touched.
	NodeArgs []string
	// User, Command and Version are for the journal.
	User, Command, Version string

	token string // see [ClusterTxn]; empty: a new one
}

// How long agents may stay on nodes, and the writes to the API may begin: shorter than a node keeps
// changes of which it is told nothing. The last write may take objectLimit more.
const (
	agentsLimit = kube.TrialBeginLimit
	writeLimit  = fleet.HoldLease / 2
	objectLimit = 2 * kube.CallLimit
)

// Tuning is a tuning for which all is read that it takes.
type Tuning struct {
	*Plan                 // of the API's objects; nil: they are not tuned
	Replies []fleet.Reply // of the nodes, to what they would change
	request TuningRequest
	client  *kube.Client
	nodes   *nodeFleet // nil: no node is touched
	stays   bool       // what reaches the nodes, and ends a trial, is not to be removed
}

// nodeFleet are agents on nodes.
type nodeFleet struct {
	*fleet.Fleet
	names []string // of the nodes, in the fleet's order
	on    *kube.NodeAgents
}

// Close ends the agents, and removes their pods.
func (n *nodeFleet) Close() error {
	if n == nil {
		return nil
	}
	n.Fleet.Close()
	return n.on.Close()
}

// Open reads what a tuning would change, and changes nothing. How the nodes tell it is said by
// planFlags. Errors are for people.
func Open(ctx context.Context, q TuningRequest, planFlags ...string) (s *Tuning, err error) {
	q.Nodes.Tune, q.Nodes.Deadline = true, agentsLimit
	if q.Trial > 0 {
		q.token = newToken()
		q.Nodes.Deadline += q.Trial + undoMargin
		q.Nodes.Trial, q.Nodes.TrialToken, q.Nodes.NoAgents = q.leaseArgs(), q.token, len(q.NodeArgs) == 0
	}
	if len(q.NodeArgs) > 0 || q.Trial > 0 {
		if err := q.Nodes.Check(); err != nil {
			return nil, err
		}
	}
	client, err := kube.Open(q.Access)
	if err != nil {
		return nil, err
	}
	s = &Tuning{request: q, client: client}
	if q.Cluster {
		objects, unread, err := readObjects(ctx, client, q.Cilium)
		if err != nil {
			return nil, err
		}
		if s.Plan, err = newPlan(q.Profile, objects); err != nil {
			return nil, err
		}
		s.Unread = unread
	}
	if q.Apply {
		if err := client.CheckTuning(ctx, writable(s.changes())); err != nil {
			return nil, err
		}
	}
	if len(q.NodeArgs) == 0 && (q.Trial == 0 || len(s.changes()) == 0) {
		return s, nil
	}
	if s.nodes, err = openNodes(ctx, client, q.Nodes); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s, err = nil, errors.Join(err, s.Close())
		}
	}()
	if q.Nodes.NoAgents {
		return s, nil
	}
	q.Nodes.Say("reading %d nodes", len(s.nodes.names))
	s.Replies = s.nodes.Run(ctx, slices.Concat(q.NodeArgs, []string{"--plan"}, planFlags))
	if ctx.Err() != nil {
		return s, context.Cause(ctx)
	}
	return s, fleet.Failed(s.Replies)
}

// openNodes reaches all nodes that are asked for. Error: one of them cannot be reached.
func openNodes(ctx context.Context, client *kube.Client, q kube.NodesRequest) (n *nodeFleet, err error) {
	on, err := client.PlaceOnNodes(ctx, q)
	if err != nil {
		return nil, err
	}
	var missing []kube.UnreachedNode
	n, missing = attach(ctx, on)
	if len(missing) == 0 {
		return n, nil
	}
	var lines []string
	for _, m := range missing {
		lines = append(lines, m.Name+": "+m.Reason)
	}
	err = verr.New(verr.Failed, "cannot tune every node", strings.Join(lines, "; "), "nothing was changed; fix these nodes, or name the others with --nodes")
	if context.Cause(ctx) != nil {
		err = context.Cause(ctx)
	}
	return nil, errors.Join(err, n.Close())
}

// attach speaks to the agents on nodes. missing are the nodes on which there is none.
func attach(ctx context.Context, on *kube.NodeAgents) (n *nodeFleet, missing []kube.UnreachedNode) {
	names, streams := on.Streams()
	f, failed := fleet.FromStreams(ctx, names, streams)
	missing = on.Unreached
	n = &nodeFleet{Fleet: f, on: on}
	for i, err := range failed {
		if err != nil {
			missing = append(missing, kube.UnreachedNode{Name: names[i], Reason: err.Error()})
		} else {
			n.names = append(n.names, names[i])
		}
	}
	return n, missing
}

// Close removes what was made to reach the nodes, unless it is there for a trial that goes on.
func (s *Tuning) Close() error {
	if !s.stays {
		return s.nodes.Close()
	}
	s.nodes.Fleet.Close()
	s.nodes.on.Leave()
	return nil
}

// changes are those that are written to the API.
func (s *Tuning) changes() []ObjectChange {
	if s.Plan == nil {
		return nil
	}
	return s.Plan.Changes
}

// writable are the objects of changes.
func writable(changes []ObjectChange) (objects []kube.TunedObject) {
	for _, c := range changes {
		objects = append(objects, kube.TunedObject{Object: c.Object, Writable: true})
	}
	return objects
}

// Result is what a tuning has changed.
type Result struct {
	Txn      int // in the cluster's journal; 0: nothing had to be changed
	Changes  []ObjectChange
	Replies  []fleet.Reply // of the nodes
	Restarts []string      // that bring the changes into effect, and that are for a person to make
	Lease    *Lease        // nil: they are on no trial
}

// newTxn is an entry of the cluster's journal that names nothing yet.
func (q TuningRequest) newTxn() *ClusterTxn {
	return &ClusterTxn{Time: time.Now().UTC().Truncate(time.Second), User: q.User, Command: q.Command, Version: q.Version, Token: cmp.Or(q.token, newToken())}
}

func newToken() string { return fmt.Sprintf("%08x", rand.Uint32()) }

// Apply makes the changes: on all nodes and in the API, or nowhere. Errors are for people.
func (s *Tuning) Apply(ctx context.Context) (*Result, error) {
	changes, q := s.changes(), s.request
	t := q.newTxn()
	t.record(changes)
	if s.nodes != nil {
		t.Nodes = s.nodes.names
	}
	if len(t.Objects)+len(t.Nodes) == 0 {
		return &Result{}, nil
	}
	if q.Trial > 0 {
		t.Lease = &Lease{Length: q.Trial, Until: s.client.Now().Add(writeMargin()).UTC().Truncate(time.Second)}
	}
	if err := t.begin(ctx, s.client); err != nil {
		return nil, err
	}
	if q.Trial > 0 {
		if err := t.awaitHolder(ctx, s.client, s.nodes.on); err != nil {
			return nil, s.rollback(ctx, t, err)
		}
	}
	q.Nodes.Say("making the changes, all of them or none")
	replies, err := s.apply(ctx, t, changes)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, s.rollback(ctx, t, err)
	}
	t.Nodes = changedNodes(replies)
	err = t.finish(ctx, s.client)
	if errors.Is(err, errClosed) || errors.Is(err, errExpired) {
		why := verr.New(verr.Failed, "cannot keep the changes", "somebody, or the pod of the trial, has undone transaction "+strconv.Itoa(t.ID)+" while they were being made", "run the command again")
		return nil, s.rollback(ctx, t, why)
	}
	r := &Result{Txn: t.ID, Changes: changes, Replies: replies, Restarts: restartsOf(changes)}
	if len(t.Objects)+len(t.Nodes) == 0 {
		r.Txn = 0
	} else if q.Trial > 0 {
		r.Lease, s.stays = t.Lease, true
	}
	hint := fmt.Sprintf("the changes were made; undo them with: kubectl venturi undo %d", t.ID)
	if t.Lease != nil {
		hint += fmt.Sprintf("; otherwise the pod of the trial undoes them at %s", t.Lease.Until.Local().Format(time.TimeOnly))
	}
	return r, verr.Wrap(verr.Failed, "cannot record that all changes were made", err, hint)
}

// apply makes the changes of a transaction that is recorded.
func (s *Tuning) apply(ctx context.Context, t *ClusterTxn, changes []ObjectChange) ([]fleet.Reply, error) {
	write := func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, writeLimit)
		defer cancel()
		return t.write(ctx, s.client, changes)
	}
	if len(s.request.NodeArgs) == 0 {
		return nil, write(ctx)
	}
	args := slices.Concat(s.request.NodeArgs, []string{"--apply", "--json", "--hold", tokenFlag, t.Token})
	if t.Lease != nil {
		args = append(args, "--trial", t.Lease.Length.String())
	}
	replies, err := s.nodes.CommitWith(ctx, args, write)
	if err != nil {
		return replies, err
	}
	return replies, fleet.Failed(replies)
}

// rollback undoes what of a transaction was written to the API, and on nodes that have kept their
// changes, and tells why. What cannot be undone stays in the journal; of a trial, its pod tries
// that again at once or, where a write is in doubt, when the lease ends.
func (s *Tuning) rollback(ctx context.Context, t *ClusterTxn, why error) error {
	restoring, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoreLimit)
	defer cancel()
	objects := t.Objects
	_, err := t.restore(restoring, s.client, RestoreOptions{})
	if t.doubt {
		t.Objects = objects
	}
	if s.nodes != nil {
		t.Nodes = s.nodes.changedBy(restoring, t.Token)
		t.undoNodes(restoring, s.nodes, nil, RestoreOptions{})
	}
	left := len(t.Objects)+len(t.Nodes) > 0
	saving, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoreLimit)
	defer cancel()
	saved := t.settle(saving, s.client, func(now *ClusterTxn) error {
		if now.Lease != nil && !t.doubt {
			now.Lease.Expired = true
		}
		return nil
	})
	if errors.Is(saved, errClosed) {
		saved = nil
		if left {
			saved = t.reopen(saving, s.client)
		}
	}
	if err = errors.Join(err, saved); err == nil && !left {
		return why
	}
	s.stays = t.Lease != nil
	switch {
	case err != nil:
	case t.doubt:
		err = errors.New("the API server did not say whether it carried out a write, and may still do so")
	default:
		err = errors.New("some of it was changed by somebody else, or could not be reached")
	}
	return errors.Join(why, verr.New(verr.Failed, "cannot undo all of what was changed", err.Error(), fmt.Sprintf("try again with: kubectl venturi undo %d", t.ID)))
}

// changedBy names the nodes with open changes of a transaction, by its token, and those that do
// not say whether they have some.
func (n *nodeFleet) changedBy(ctx context.Context, token string) (names []string) {
	for i, r := range n.openBy(ctx, token) {
		if r.err != nil || len(r.txns) > 0 {
			names = append(names, n.names[i])
		}
	}
	return names
}

// openTxns are the numbers of open transactions in the journal of a node.
type openTxns struct {
	txns []string
	err  error
}

// openBy reads the journals of the nodes.
func (n *nodeFleet) openBy(ctx context.Context, token string) []openTxns {
	var all []openTxns
	for _, r := range n.Run(ctx, []string{"journal", "--open", "--json"}) {
		var txns []fleet.RemoteTxn
		of := openTxns{err: r.Err}
		if of.err == nil {
			txns, of.err = r.Txns()
		}
		for _, t := range txns {
			if strings.Contains(t.Command, tokenFlag+" "+token) {
				of.txns = append(of.txns, strconv.Itoa(t.ID))
			}
		}
		all = append(all, of)
	}
	return all
}

// tokenFlag has the token of a transaction, in the command by which a node knows it.
const tokenFlag = "--token"

// changedNodes are those on which something was changed.
func changedNodes(replies []fleet.Reply) (names []string) {
	for _, r := range replies {
		// What cannot be read may have changed something.
		if txns, err := r.Txns(); err != nil || len(txns) > 0 {
			names = append(names, r.Machine.Name)
		}
	}
	return names
}

func restartsOf(changes []ObjectChange) (all []string) {
	for _, c := range changes {
		for _, command := range c.Restarts {
			if !slices.Contains(all, command) {
				all = append(all, command)
			}
		}
	}
	return all
}
