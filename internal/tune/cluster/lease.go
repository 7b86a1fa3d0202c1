package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/venturi-net/venturi/internal/kube"
	"github.com/venturi-net/venturi/internal/verr"
)

// Lease is for how long a transaction on trial stays that nobody confirms. The nodes have leases
// of their own; this one is held by a pod, which undoes what is in the API, and the rest.
type Lease struct {
	Length    time.Duration `json:"length"`
	Until     time.Time     `json:"until"`                // by the API server's clock
	HasHolder bool          `json:"has_holder,omitempty"` // the pod waits for the end
	Problem   string        `json:"problem,omitempty"`    // why it cannot
	Confirmed time.Time     `json:"confirmed,omitzero"`   // since then, it stays
	Expired   bool          `json:"expired,omitempty"`    // it is being undone
}

// Limits of a trial.
const (
	// writeMargin is added to a lease until all is written: the pod undoes what a command has left that
	// was killed, and must not undo what one still writes.
	writeMargin = 5 * time.Minute
	// undoMargin is how long pods stay after a lease, for what cannot be undone at once.
	undoMargin = time.Hour
	// holderLimit is how long the pod may take until it holds the lease, once it runs.
	holderLimit = 2 * time.Minute
	leasePoll   = 2 * time.Second
	maxPause    = time.Minute // between two attempts to undo
)

// leaseArgs are the arguments of the command that holds the lease of a transaction, in a pod.
func (q TuningRequest) leaseArgs() []string {
	args := []string{"kube", "lease", tokenFlag, q.token, "--image", q.Nodes.Image}
	for _, f := range []struct{ flag, value string }{{"--namespace", q.Nodes.Namespace}, {"--image-pull-secret", q.Nodes.PullSecret}} {
		if f.value != "" {
			args = append(args, f.flag, f.value)
		}
	}
	return args
}

var (
	errClosed    = errors.New("it was undone")
	errConfirmed = errors.New("it was confirmed")
)

// update changes a transaction as the journal has it now. Error: it is closed, or change does not want to.
func update(ctx context.Context, client *kube.Client, id int, change func(t *ClusterTxn) error) error {
	return client.ChangeLedger(ctx, func(entries map[string]string) error {
		t := &ClusterTxn{}
		text, open := entries[entryName(id)]
		if !open {
			return errClosed
		}
		if err := json.Unmarshal([]byte(text), t); err != nil {
			return err
		}
		if err := change(t); err != nil {
			return err
		}
		return t.put(entries)
	})
}

// find gives the transaction of the journal that has a token; nil: there is none.
func find(ctx context.Context, client *kube.Client, token string) (*ClusterTxn, error) {
	all, err := readTransactions(ctx, client)
	i := slices.IndexFunc(all, func(t *ClusterTxn) bool { return t.Token == token })
	if err != nil || i < 0 {
		return nil, err
	}
	return all[i], nil
}

// awaitHolder waits until the pod of a trial holds the lease of a transaction, before anything is
// changed.
func (t *ClusterTxn) awaitHolder(ctx context.Context, client *kube.Client, on *kube.NodeAgents) error {
	const what = "cannot begin a trial"
	for deadline := time.Now().Add(holderLimit); ; {
		now, err := find(ctx, client, t.Token)
		switch {
		case err != nil:
			return err
		case now == nil || now.Lease == nil:
			return verr.New(verr.Failed, what, "the entry in the cluster's journal was changed by somebody else", "try again")
		case now.Lease.Problem != "":
			return verr.New(verr.Permission, what, "the pod that undoes it when its time ends cannot do that: "+now.Lease.Problem, "an administrator applies what `kubectl venturi rbac tune --trial` prints")
		case now.Lease.HasHolder:
			t.Lease = now.Lease
			return nil
		case time.Now().After(deadline):
			return verr.New(verr.Failed, what, fmt.Sprintf("the pod that undoes it when its time ends has not read the cluster's journal within %v", holderLimit),
				"see that pods with hostNetwork reach the API server")
		}
		if err := on.TrialFailure(ctx); err != nil {
			return err
		}
		if err := kube.Pause(ctx, leasePoll); err != nil {
			return err
		}
	}
}

// HoldLease waits for the end of the lease of a transaction, which is known by its token, and undoes
// it then: first what is in the API, which no other run holds up. It returns when the transaction was
// confirmed or undone, or all that is left of it somebody else has changed. Other errors it
// tries to get over until ctx ends, and says.
func HoldLease(ctx context.Context, q UndoRequest, token string) error {
	client, err := kube.Open(q.Access)
	if err != nil {
		return err
	}
	h := leaseHolder{UndoRequest: q, client: client, token: token}
	h.Nodes.Wait = true
	held, err := h.hold(ctx)
	if err != nil || !held {
		return err
	}
	for wait := leasePoll; ; {
		over, err := h.step(ctx)
		switch {
		case over:
			return err
		case err == nil:
			wait = leasePoll
		default:
			q.Nodes.Say("%v", err)
			wait = min(2*wait, maxPause)
		}
		if err := kube.Pause(ctx, wait); err != nil {
			return err
		}
	}
}

// leaseHolder waits for the end of a lease.
type leaseHolder struct {
	UndoRequest
	client *kube.Client
	token  string
}

// hold waits until the transaction is recorded, and says in the journal that its lease is held.
// False: there is nothing to hold.
func (h *leaseHolder) hold(ctx context.Context) (bool, error) {
	for deadline := time.Now().Add(agentsLimit); ; {
		t, err := find(ctx, h.client, h.token)
		switch {
		case err != nil:
			return false, err
		case t != nil && t.Lease != nil:
			problem := h.check(ctx, t)
			err := update(ctx, h.client, t.ID, func(t *ClusterTxn) error {
				t.Lease.HasHolder, t.Lease.Problem = problem == nil, ""
				if problem != nil {
					t.Lease.Problem = problem.Error()
				}
				return nil
			})
			if errors.Is(err, errClosed) {
				return false, nil
			}
			return problem == nil, err
		case time.Now().After(deadline):
			return false, nil
		}
		if err := kube.Pause(ctx, leasePoll); err != nil {
			return false, err
		}
	}
}

// check asks for every right that it takes to undo a transaction.
func (h *leaseHolder) check(ctx context.Context, t *ClusterTxn) error {
	var objects []kube.TunedObject
	for _, o := range t.Objects {
		objects = append(objects, kube.TunedObject{Object: o.Object, Writable: true})
	}
	err := h.client.CheckTuning(ctx, objects)
	if err == nil && len(t.Nodes) > 0 {
		err = h.client.CheckNodes(ctx, h.Nodes.Options)
	}
	return err
}

// step looks whether the lease has ended, and undoes the transaction then.
func (h *leaseHolder) step(ctx context.Context) (over bool, err error) {
	t, err := find(ctx, h.client, h.token)
	if err != nil || t == nil || t.Lease == nil {
		return err == nil, err
	}
	if h.client.Now().Before(t.Lease.Until) && !t.Lease.Expired {
		return !t.Lease.Confirmed.IsZero(), nil
	}
	err = update(ctx, h.client, t.ID, func(t *ClusterTxn) error {
		if !t.Lease.Confirmed.IsZero() {
			return errConfirmed
		}
		t.Lease.Expired = true
		return nil
	})
	if errors.Is(err, errClosed) || errors.Is(err, errConfirmed) {
		return true, nil
	}
	if err == nil {
		err = h.undo(ctx, t.ID)
	}
	return err == nil || verr.Code(err) == verr.Partial, err
}

// undo undoes the transaction: the API's part of it first.
func (h *leaseHolder) undo(ctx context.Context, id int) error {
	t, err := find(ctx, h.client, h.token)
	if err != nil || t == nil {
		return err
	}
	if len(t.Objects) > 0 {
		_, err := t.restore(ctx, h.client, RestoreOptions{})
		if err := errors.Join(err, t.save(ctx, h.client)); err != nil {
			return err
		}
	}
	q := h.UndoRequest
	q.Txns = []int{id}
	if len(t.Objects)+len(t.Nodes) == 0 {
		return nil
	}
	_, err = Undo(ctx, q)
	return err
}

// Confirm keeps a transaction that is on trial, on all nodes and in the API, and gives its number.
// Errors are for people; with one, all of it is undone when its lease ends.
func Confirm(ctx context.Context, q UndoRequest) (id int, err error) {
	client, err := kube.Open(q.Access)
	if err != nil {
		return 0, err
	}
	t, err := q.chooseTrial(ctx, client)
	if err != nil {
		return 0, err
	}
	nodes, missing, err := q.reach(ctx, client, []*ClusterTxn{t})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, nodes.Close()) }()
	if err = t.confirmNodes(ctx, nodes, missing); err == nil {
		err = update(ctx, client, t.ID, func(t *ClusterTxn) error {
			if t.Lease == nil || t.Lease.Expired {
				return errors.New("its time is over")
			}
			t.Lease.Confirmed = client.Now().UTC().Truncate(time.Second)
			return nil
		})
	}
	return t.ID, verr.Wrap(verr.Failed, fmt.Sprintf("cannot confirm transaction %d", t.ID), err,
		fmt.Sprintf("all of it is undone when its time ends, at %s; or undo it now with: kubectl venturi undo %d", t.Lease.Until.Local().Format(time.TimeOnly), t.ID))
}

// chooseTrial gives the transaction to confirm.
func (q UndoRequest) chooseTrial(ctx context.Context, client *kube.Client) (*ClusterTxn, error) {
	all, err := readTransactions(ctx, client)
	if err != nil {
		return nil, err
	}
	onTrial := slices.DeleteFunc(slices.Clone(all), func(t *ClusterTxn) bool {
		return t.Lease == nil || !t.Lease.Confirmed.IsZero() || len(q.Txns) > 0 && !slices.Contains(q.Txns, t.ID)
	})
	const what = "cannot confirm a trial"
	switch {
	case len(onTrial) == 0 && len(q.Txns) > 0:
		return nil, verr.New(verr.Usage, what, fmt.Sprintf("transaction %d is not on trial", q.Txns[0]), "without a number, confirm keeps the only one that is")
	case len(onTrial) == 0:
		return nil, verr.New(verr.Usage, what, "no transaction is on trial", "what a trial had changed is undone when its time has ended")
	case len(onTrial) > 1:
		return nil, verr.New(verr.Usage, what, fmt.Sprintf("transactions %d and %d are on trial", onTrial[0].ID, onTrial[1].ID), "give the number of one")
	case !onTrial[0].Done:
		return nil, verr.New(verr.Failed, what, fmt.Sprintf("transaction %d was never finished: only a part of its changes may be in effect", onTrial[0].ID),
			fmt.Sprintf("undo it with: kubectl venturi undo %d; then make the changes again", onTrial[0].ID))
	}
	return onTrial[0], nil
}

// confirmNodes confirms the transaction on all of its nodes. Error: on some it was not.
func (t *ClusterTxn) confirmNodes(ctx context.Context, nodes *nodeFleet, missing []kube.UnreachedNode) error {
	for _, m := range missing {
		if slices.Contains(t.Nodes, m.Name) {
			return fmt.Errorf("%s: %s", m.Name, m.Reason)
		}
	}
	if nodes == nil {
		return nil
	}
	open := nodes.openBy(ctx, t.Token)
	for i, o := range open {
		if o.err != nil || len(o.txns) == 0 {
			return fmt.Errorf("%s: %w", nodes.names[i], cmp.Or(o.err, errClosed))
		}
	}
	for i, r := range nodes.RunEach(ctx, func(i int) []string { return []string{"confirm", open[i].txns[0]} }) {
		if r.Err != nil {
			return fmt.Errorf("%s: %w", nodes.names[i], r.Err)
		}
	}
	return nil
}
