package cli

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/fleet"
	"github.com/venturi-net/venturi/internal/kube"
	"github.com/venturi-net/venturi/internal/prooflab"
	"github.com/venturi-net/venturi/internal/tune"
	"github.com/venturi-net/venturi/internal/tune/cluster"
	"github.com/venturi-net/venturi/internal/verr"
)

// proofPaths are the paths between two nodes on which a proof measures.
var proofPaths = []string{"host", "pod"}

// proveOnNodes finds which steps of a profile help on two nodes. The others stay as they are.
func (t *kubeTuning) proveOnNodes(ctx context.Context, env *Env, q cluster.TuningRequest) error {
	what := "cannot prove profile " + q.Profile.Name
	switch {
	case q.Cluster:
		return verr.New(verr.Usage, what+" with --cluster", "a proof turns changes on and off every few seconds, but the network plugin reads its settings when its pods restart",
			"leave out --cluster (with --config: set TUNING_CILIUM to false in the file)")
	case !slices.Contains(proofPaths, t.prove.path):
		return verr.New(verr.Usage, what+" on path "+t.prove.path, "the paths between two nodes are "+strings.Join(proofPaths, " and "), "choose one of these with --path")
	}
	options := q.Nodes.Options
	options.Level = kube.Node
	request := prooflab.Request(t.prove.path, "")
	request.Seed, request.Command, request.Wait = t.prove.seed, ownCommand(env), t.wait
	request.Cluster = &compare.Cluster{Access: q.Access, Options: options, Tune: true, Extra: tune.ProofLease(t.prove.budget, nil).Lease}
	var left error
	proof := remoteProof{proving: &t.prove, env: env, profile: q.Profile, request: request, asJSON: t.asJSON, suggest: commandOnNodes,
		begin: func(nodes *fleet.Fleet, names []string) ([]string, func(), error) {
			record, err := cluster.BeginProof(ctx, q, nodes, names)
			if err != nil {
				return nil, nil, err
			}
			return slices.Concat(q.NodeArgs, record.Args()), func() { left = record.End(ctx) }, nil
		}}
	err := proof.run(ctx)
	return errors.Join(withInterruption(ctx, err), left)
}

// commandOnNodes is a command for some nodes.
func commandOnNodes(command string, nodes ...string) string {
	return command + "   # on " + strings.Join(nodes, ", ")
}
