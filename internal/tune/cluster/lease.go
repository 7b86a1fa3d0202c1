package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/venturi-net/venturi/internal/fleet"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/kube"
	"github.com/venturi-net/venturi/internal/verr"
)

// Lease is for how long a transaction on trial stays that nobody confirms. The nodes have leases
// of their own; this one is held by a pod, which undoes what is in the API, and the rest.
type Lease struct {
	Length    time.Duration `json:"length"`
	Until     time.Time     `json:"until"`                // by the API server's clock
	HasHolder bool          `json:"has_holder,omitempty"` // the pod waits for the end
	Problem   string        `json:"problem,omitempty"`    // why it cannot, or what it could not undo
	Confirmed time.Time     `json:"confirmed,omitzero"`   // since then, it stays
	Expired   bool          `json:"expired,omitempty"`    // it is being undone
}

// hasEnded tells whether the time of the lease is over.
func (l *Lease) hasEnded(now time.Time) bool { return l.Expired || !now.Before(l.Until) }

// Limits of a trial.
const (
	// holderLimit is how long the pod may take until it holds the lease, once it runs.
	holderLimit = 2 * time.Minute
	// undoMargin is how long pods stay after a lease, for what cannot be undone at once.
	undoMargin = time.Hour
	leasePoll  = 2 * time.Second
	maxPause   = time.Minute // between two attempts to undo
)

// writeMargin is the lease until all is written: the pod undoes what a command has left that was
// killed, and must not undo what one still writes. It is the sum of what bounds the steps of
// [Tuning.Apply].
func writeMargin() time.Duration {
	return holderLimit + fleet.CommitLimit() + writeLimit + objectLimit + 2*restoreLimit + objectLimit
}

// leaseArgs are the arguments of the command that holds the lease of a transaction, in a pod. It
// makes agents in that pod's own namespace only.
func (q TuningRequest) leaseArgs() []string {
	args := []string{"kube", "lease", tokenFlag, q.token, "--image", q.Nodes.Image, "--namespace", cmp.Or(q.Nodes.Namespace, kube.TrialName)}
	if q.Nodes.PullSecret != "" {
		args = append(args, "--image-pull-secret", q.Nodes.PullSecret)
	}
	return args
}

var (
	errClosed    = errors.New("it was undone")
	errConfirmed = errors.New("it was confirmed")
	errExpired   = errors.New("its time has ended, and it is being undone")
)

// isFinal tells of an error that another attempt does not get over.
func isFinal(err error) bool {
	return errors.Is(err, errClosed) || errors.Is(err, errConfirmed) || errors.Is(err, errExpired) || verr.Code(err) == verr.Permission
}

// persist tries something again, for as long as [restoreLimit], that fails because the API server is
// away, or does not say what became of a write. The end of ctx does not end it.
func persist(ctx context.Context, try func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoreLimit)
	defer cancel()
	for {
		err := try(ctx)
		if err == nil || isFinal(err) || host.Sleep(ctx, leasePoll) != nil {
			return err
		}
	}
}

// find gives the transaction of the journal that has a token; nil: there is none.
func find(ctx context.Context, client *kube.Client, token string) (*ClusterTxn, error) {
	all, err := readTransactions(ctx, client)
	if i := slices.IndexFunc(all, func(t *ClusterTxn) bool { return t.Token == token }); i >= 0 {
		return all[i], nil // another entry that cannot be read is no concern of its own
	}
	return nil, err
}

// awaitHolder waits until the pod of a trial holds the lease of a transaction, before anything is
// changed.
func (t *ClusterTxn) awaitHolder(ctx context.Context, client *kube.Client, on *kube.NodeAgents) error {
	const what = "cannot begin a trial"
	ctx, cancel := context.WithTimeoutCause(ctx, holderLimit, verr.New(verr.Failed, what,
		fmt.Sprintf("the pod that undoes it when its time ends has not read the cluster's journal within %v", holderLimit), "check that pods with hostNetwork reach the API server"))
	defer cancel()
	for {
		now, err := find(ctx, client, t.Token)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return err
		case now == nil || now.Lease == nil:
			return verr.New(verr.Failed, what, "somebody else has changed its entry in the cluster's journal", "run the command again")
		case now.Lease.Problem != "":
			return verr.New(verr.Permission, what, "the pod that undoes it when its time ends cannot do so: "+now.Lease.Problem, "ask an administrator to apply what `kubectl venturi rbac tune --trial` prints")
		case now.Lease.HasHolder:
			return nil
		}
		if err := on.TrialFailure(ctx); err != nil {
			return cmp.Or(context.Cause(ctx), err)
		}
		if err := host.Sleep(ctx, leasePoll); err != nil {
			return err
		}
	}
}

// finish records that all changes of a transaction were made. From now on a trial lasts as long as
// was asked for. Errors: [errClosed] and [errExpired], where somebody has undone it meanwhile.
func (t *ClusterTxn) finish(ctx context.Context, client *kube.Client) error {
	return persist(ctx, func(ctx context.Context) error {
		return t.settle(ctx, client, func(now *ClusterTxn) error {
			now.Done = true
			if now.Lease == nil {
				return nil
			}
			if now.Lease.hasEnded(client.Now()) {
				return errExpired
			}
			now.Lease.Until = client.Now().Add(now.Lease.Length).UTC().Truncate(time.Second)
			t.Lease = now.Lease
			return nil
		})
	})
}

// HoldLease waits for the end of the lease of a transaction, which is known by its token, and undoes
// it then: first what is in the API, which no other run holds up. It returns when the transaction was
// confirmed or undone, or all that is left of it somebody else has changed, which the journal
// says then. Other errors it tries to get over until ctx ends, and says.
//
// An error makes the Job of its pod start it again; without one the Job ends, and the pods on the
// nodes with it.
func HoldLease(ctx context.Context, q UndoRequest, token string) error {
	client, err := kube.Open(q.Access)
	if err != nil {
		return err
	}
	h := leaseHolder{UndoRequest: q, client: client, token: token, begin: time.Now().Add(kube.TrialBeginLimit)}
	h.Nodes.Wait = true
	for pause := leasePoll; ; {
		over, err := h.step(ctx)
		if over {
			return err
		}
		pause = min(2*pause, maxPause)
		if err == nil {
			pause = leasePoll
		} else {
			q.Nodes.Say("%v", err)
		}
		if err := host.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// leaseHolder waits for the end of a lease.
type leaseHolder struct {
	UndoRequest
	client   *kube.Client
	token    string
	begin    time.Time // until then, the transaction may be recorded
	recorded bool      // it was
}

// step does what is to be done about the transaction as the journal has it now. over: nothing is
// left to do, or, with an error, to be done by this process.
func (h *leaseHolder) step(ctx context.Context) (over bool, err error) {
	t, err := find(ctx, h.client, h.token)
	switch {
	case err != nil:
		return !h.recorded && verr.Code(err) == verr.Permission, err
	case t == nil:
		return h.recorded || time.Now().After(h.begin), nil
	}
	h.recorded = true
	switch {
	case t.Lease == nil || !t.Lease.Confirmed.IsZero():
		return true, nil
	case !t.Lease.HasHolder && !t.Lease.Expired:
		return h.hold(ctx, t)
	case !t.Lease.hasEnded(h.client.Now()):
		return false, nil
	}
	return h.expire(ctx, t)
}

// hold says in the journal that the lease is held, or which right that lacks: nothing is changed yet,
// and will not be then. A pod that was started again for a lease that is held does not ask anew.
func (h *leaseHolder) hold(ctx context.Context, t *ClusterTxn) (over bool, err error) {
	problem := ""
	if err := h.check(ctx, t); verr.Code(err) == verr.Permission {
		problem = err.Error()
	} else if err != nil {
		return false, err
	}
	err = t.updateLease(ctx, h.client, func(lease *Lease) error {
		lease.HasHolder, lease.Problem = problem == "", problem
		return nil
	})
	if errors.Is(err, errClosed) {
		return true, nil
	}
	return err == nil && problem != "", err
}

// updateLease changes the lease of a transaction as the journal has it now. Error: [errClosed], where it
// has none any more, or what change says.
func (t *ClusterTxn) updateLease(ctx context.Context, client *kube.Client, change func(*Lease) error) error {
	return t.update(ctx, client, func(now *ClusterTxn) error {
		if now.Lease == nil {
			return errClosed
		}
		return change(now.Lease)
	})
}

// check asks for every right that it takes to undo a transaction.
func (h *leaseHolder) check(ctx context.Context, t *ClusterTxn) error {
	var objects []kube.TunedObject
	for _, o := range t.Objects {
		objects = append(objects, kube.TunedObject{Object: o.Object, Writable: true})
	}
	return h.client.CheckTrial(ctx, h.Nodes.Options, objects, len(t.Nodes) > 0)
}

// expire undoes a transaction whose lease has ended.
func (h *leaseHolder) expire(ctx context.Context, t *ClusterTxn) (over bool, err error) {
	err = t.updateLease(ctx, h.client, func(lease *Lease) error {
		if !lease.Confirmed.IsZero() {
			return errConfirmed
		}
		lease.Expired = true
		return nil
	})
	if err == nil {
		err = h.undo(ctx, t)
	}
	if verr.Code(err) == verr.Partial {
		conflict := err
		h.Nodes.Say("%v", conflict)
		err = t.updateLease(ctx, h.client, func(lease *Lease) error {
			lease.Problem = conflict.Error()
			return nil
		})
	}
	if errors.Is(err, errClosed) || errors.Is(err, errConfirmed) {
		return true, nil
	}
	return err == nil, err
}

// undo undoes the transaction: the API's part of it first.
func (h *leaseHolder) undo(ctx context.Context, t *ClusterTxn) error {
	if len(t.Objects) > 0 {
		_, err := t.restore(ctx, h.client, RestoreOptions{})
		if err := errors.Join(err, t.save(ctx, h.client)); err != nil {
			return err
		}
	}
	if len(t.Objects)+len(t.Nodes) == 0 {
		return nil
	}
	q := h.UndoRequest
	q.Txns = []int{t.ID}
	_, err := Undo(ctx, q)
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
		err = t.confirm(ctx, client)
	}
	hint := fmt.Sprintf("try again: unless it is confirmed, all of it is undone when its time ends, at %s; or undo it now with: kubectl venturi undo %d", t.Lease.Until.Local().Format(time.TimeOnly), t.ID)
	if errors.Is(err, errClosed) || errors.Is(err, errExpired) {
		hint = "make the changes again, with a longer --trial"
	}
	return t.ID, verr.Wrap(verr.Failed, fmt.Sprintf("cannot confirm transaction %d", t.ID), err, hint)
}

// confirm records that a transaction is confirmed, unless its lease has ended. What was changed on
// the nodes is confirmed before: the pod undoes that, too, where this fails.
func (t *ClusterTxn) confirm(ctx context.Context, client *kube.Client) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return persist(ctx, func(ctx context.Context) error {
		return t.updateLease(ctx, client, func(lease *Lease) error {
			switch {
			case !lease.Confirmed.IsZero():
				return nil // by an attempt whose answer was lost
			case lease.hasEnded(client.Now()):
				return errExpired
			}
			lease.Confirmed = client.Now().UTC().Truncate(time.Second)
			return nil
		})
	})
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
		return nil, verr.New(verr.Usage, what, fmt.Sprintf("transaction %d is not on trial", q.Txns[0]), "leave the number out to confirm the only one on trial")
	case len(onTrial) == 0:
		return nil, verr.New(verr.Usage, what, "no transaction is on trial", "make the changes again with `kubectl venturi tune --apply --trial`: a trial is undone when its time ends")
	case len(onTrial) > 1:
		return nil, verr.New(verr.Usage, what, fmt.Sprintf("transactions %d and %d are on trial", onTrial[0].ID, onTrial[1].ID), "give the number of one")
	}
	switch t := onTrial[0]; {
	case t.Lease.hasEnded(client.Now()):
		why := fmt.Sprintf("the time of transaction %d ended at %s", t.ID, t.Lease.Until.Local().Format(time.TimeOnly))
		if t.Lease.Problem != "" {
			why += ", and some of it could not be undone: " + t.Lease.Problem
		}
		return nil, verr.New(verr.Failed, what, why, fmt.Sprintf("undo what is left of it with: kubectl venturi undo %d", t.ID))
	case !t.Done:
		return nil, verr.New(verr.Failed, what, fmt.Sprintf("transaction %d was never finished: perhaps only some of its changes were made", t.ID),
			fmt.Sprintf("undo it with: kubectl venturi undo %d; then make the changes again", t.ID))
	default:
		return t, nil
	}
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
