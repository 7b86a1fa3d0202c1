package cluster

import (
	"context"
	"fmt"
	"strings"

	"github.com/venturi-net/venturi/internal/fleet"
	"github.com/venturi-net/venturi/internal/kube"
	"github.com/venturi-net/venturi/internal/verr"
)

// NodeProof is in the cluster's journal for as long as a proof tries changes on nodes. What a
// node keeps whose pod was killed, with all that undoes it there, undo finds by this.
type NodeProof struct {
	client *kube.Client
	txn    *ClusterTxn
	nodes  *nodeFleet
}

// BeginProof records that changes will be tried on nodes, before any is. Errors are for people.
func BeginProof(ctx context.Context, q TuningRequest, nodes *fleet.Fleet, names []string) (*NodeProof, error) {
	client, err := kube.Open(q.Access)
	if err != nil {
		return nil, err
	}
	t := q.newTxn()
	t.Nodes = names
	if err := t.begin(ctx, client); err != nil {
		return nil, err
	}
	return &NodeProof{client, t, &nodeFleet{Fleet: nodes, names: names}}, nil
}

// Args are those of the command on a node by which the node's journal knows the proof.
func (p *NodeProof) Args() []string { return []string{tokenFlag, p.txn.Token} }

// End removes the record, unless something that was tried may still be there on a node.
func (p *NodeProof) End(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoreLimit)
	defer cancel()
	p.txn.Nodes = p.nodes.changedBy(ctx, p.txn.Token)
	err := p.txn.save(ctx, p.client)
	if err == nil && len(p.txn.Nodes) > 0 {
		err = fmt.Errorf("%s may still have some of it", strings.Join(p.txn.Nodes, ", "))
	}
	return verr.Wrap(verr.Failed, "cannot confirm that all that was tried is undone", err, fmt.Sprintf("undo the rest with: kubectl venturi undo %d", p.txn.ID))
}
