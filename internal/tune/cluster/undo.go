package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/venturi-net/venturi/internal/fleet"
	"github.com/venturi-net/venturi/internal/kube"
	"github.com/venturi-net/venturi/internal/verr"
)

// UndoRequest is what to undo.
type UndoRequest struct {
	Access kube.Access
	Nodes  kube.NodesRequest
	Txns   []int // none: the only one that is open
	All    bool
	RestoreOptions
}

// UndoResult is what became of one transaction.
type UndoResult struct {
	Txn     int            `json:"transaction"`
	Objects []FieldOutcome `json:"objects"`
	Nodes   []NodeOutcome  `json:"nodes"`
	Open    bool           `json:"open"` // something of it is left to undo
}

// NodeOutcome is what became of the changes of one node.
type NodeOutcome struct {
	Node  string `json:"node"`
	Text  string `json:"text,omitempty"` // what undo said there
	Error string `json:"error,omitempty"`
	// Conflict: the error is that somebody else has changed values since. Another attempt meets it, too.
	Conflict bool `json:"conflict,omitempty"`
}

// Undo undoes transactions of the cluster's journal: in the API, and on the nodes by their own
// journals. Errors are for people; what was undone before one is in the results.
func Undo(ctx context.Context, q UndoRequest) (results []UndoResult, err error) {
	client, err := kube.Open(q.Access)
	if err != nil {
		return nil, err
	}
	all, unread := readTransactions(ctx, client)
	chosen, err := q.choose(all)
	if unread != nil && (err != nil || len(q.Txns) == 0) { // else those that were named can be read
		return nil, unread
	}
	if err != nil || len(chosen) == 0 {
		return nil, err
	}
	nodes, missing, err := q.reach(ctx, client, chosen)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, nodes.Close()) }()
	var failed []error
	for _, t := range slices.Backward(chosen) {
		r := UndoResult{Txn: t.ID, Objects: []FieldOutcome{}, Nodes: []NodeOutcome{}}
		outcomes, err := t.restore(ctx, client, q.RestoreOptions)
		r.Objects = append(r.Objects, outcomes...)
		r.Nodes = append(r.Nodes, t.undoNodes(ctx, nodes, missing, q.RestoreOptions)...)
		saving, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoreLimit)
		err = errors.Join(err, t.save(saving, client))
		cancel()
		r.Open = len(t.Objects)+len(t.Nodes) > 0
		results, failed = append(results, r), append(failed, err)
		if ctx.Err() != nil {
			return results, context.Cause(ctx)
		}
	}
	return results, errors.Join(append(failed, openError(results))...)
}

// openError tells of what is left to undo.
func openError(results []UndoResult) error {
	conflicts, where := 0, ""
	for _, r := range results {
		for _, n := range r.Nodes {
			switch {
			case n.Conflict:
				conflicts, where = conflicts+1, where+", "+n.Node
			case n.Error != "":
				return verr.New(verr.Failed, fmt.Sprintf("cannot undo all of transaction %d", r.Txn), n.Node+": "+n.Error,
					"fix that, and run undo again: what was undone stays undone; or give up what a node cannot undo (--leave)")
			}
		}
		for _, o := range r.Objects {
			if o.State == stateConflict {
				conflicts++
			}
		}
	}
	if conflicts == 0 {
		return nil
	}
	if where != "" {
		where = " (on nodes" + strings.TrimPrefix(where, ",") + ")"
	}
	return verr.New(verr.Partial, "not all values were undone", "somebody else has changed some of them since"+where,
		"overwrite them with the old values (--force), or keep them and close the change (--leave)")
}

// choose gives the transactions to undo.
func (q UndoRequest) choose(all []*ClusterTxn) (chosen []*ClusterTxn, err error) {
	if q.All {
		return all, nil
	}
	var open []string
	for _, t := range all {
		open = append(open, fmt.Sprintf("%d (%s by %s)", t.ID, t.Time.Format("2006-01-02 15:04"), t.User))
	}
	if len(q.Txns) == 0 && len(all) > 1 {
		return nil, verr.New(verr.Usage, "cannot choose what to undo", fmt.Sprintf("%d transactions are open: %s", len(all), strings.Join(open, ", ")), "name the ones to undo, or give --all")
	}
	if len(q.Txns) == 0 {
		return all, nil
	}
	for _, t := range all {
		if slices.Contains(q.Txns, t.ID) {
			chosen = append(chosen, t)
		}
	}
	for _, id := range q.Txns {
		if !slices.ContainsFunc(all, func(t *ClusterTxn) bool { return t.ID == id }) {
			why := "no transaction is open"
			if len(open) > 0 {
				why = "the open ones are " + strings.Join(open, ", ")
			}
			return nil, verr.New(verr.Usage, "cannot undo transaction "+strconv.Itoa(id), why, "name one that is open")
		}
	}
	return chosen, nil
}

// reach starts agents on the nodes that transactions have changed; missing are those without one.
func (q UndoRequest) reach(ctx context.Context, client *kube.Client, chosen []*ClusterTxn) (n *nodeFleet, missing []kube.UnreachedNode, err error) {
	r := q.Nodes
	r.Tune, r.Lenient, r.Deadline = true, true, agentsLimit
	for _, t := range chosen {
		for _, name := range t.Nodes {
			if !slices.Contains(r.Options.Nodes, name) {
				r.Options.Nodes = append(r.Options.Nodes, name)
			}
		}
	}
	if len(r.Options.Nodes) == 0 {
		return nil, nil, nil
	}
	if err := r.Check(); err != nil {
		return nil, nil, err
	}
	on, err := client.PlaceOnNodes(ctx, r)
	if verr.Code(err) == verr.Missing {
		for _, name := range r.Options.Nodes {
			missing = append(missing, kube.UnreachedNode{Name: name, Reason: "the node is not ready, or not in the cluster"})
		}
		return nil, missing, nil
	}
	if err != nil {
		return nil, nil, err
	}
	n, missing = attach(ctx, on)
	return n, missing, nil
}

// undoNodes undoes what a transaction has changed on nodes. Those where that goes wrong stay in the
// transaction.
func (t *ClusterTxn) undoNodes(ctx context.Context, nodes *nodeFleet, missing []kube.UnreachedNode, how RestoreOptions) (outcomes []NodeOutcome) {
	if len(t.Nodes) == 0 {
		return nil
	}
	var left []string
	tell := func(name, text string, err error) {
		o := NodeOutcome{Node: name, Text: text}
		if err != nil {
			o.Error, o.Conflict = err.Error(), verr.Code(err) == verr.Partial
			left = append(left, name)
		}
		outcomes = append(outcomes, o)
	}
	for _, m := range missing {
		switch {
		case !slices.Contains(t.Nodes, m.Name):
		case how.Leave:
			tell(m.Name, "given up: "+m.Reason, nil)
		default:
			tell(m.Name, "", errors.New(m.Reason))
		}
	}
	if nodes != nil {
		open := nodes.openBy(ctx, t.Token)
		replies := nodes.RunEach(ctx, func(i int) []string {
			if !slices.Contains(t.Nodes, nodes.names[i]) || len(open[i].txns) == 0 {
				return nil
			}
			return slices.Concat([]string{"undo"}, open[i].txns, how.flags())
		})
		for i, r := range replies {
			switch {
			case !slices.Contains(t.Nodes, nodes.names[i]):
			case open[i].err != nil:
				tell(nodes.names[i], "", open[i].err)
			case len(open[i].txns) == 0:
				tell(nodes.names[i], "nothing to undo\n", nil)
			default:
				tell(nodes.names[i], string(r.Stdout), fleet.Failed([]fleet.Reply{r}))
			}
		}
	}
	t.Nodes = left
	return outcomes
}

// flags are those of the command that undoes on a node.
func (o RestoreOptions) flags() []string {
	switch {
	case o.Force:
		return []string{"--force"}
	case o.Leave:
		return []string{"--leave"}
	}
	return nil
}
