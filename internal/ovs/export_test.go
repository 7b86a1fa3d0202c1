package ovs

import (
	"context"

	"github.com/ovn-org/libovsdb/ovsdb"
)

// AddPorts gives a bridge further ports, as AddBridges does.
func (s *Switch) AddPorts(ctx context.Context, bridge string, ports ...Port) error {
	ops, refs := insertPorts(0, ports)
	ops = append(ops, ovsdb.Operation{
		Op: ovsdb.OperationMutate, Table: tableBridge, Where: named(bridge),
		Mutations: []ovsdb.Mutation{*ovsdb.NewMutation("ports", ovsdb.MutateOperationInsert, references(refs...))},
	})
	return s.apply(ctx, ops, ports)
}
