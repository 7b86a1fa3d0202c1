package ovn

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/ovn-org/libovsdb/client"
	"github.com/ovn-org/libovsdb/ovsdb"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/ovs"
)

// daemonTimeout is how long a network gets to stand: far more than it needs on a
// busy machine, so that only a hang exceeds it.
var daemonTimeout = host.ScaleTimeout(60 * time.Second)

// northbound is a connection to a northbound database.
type northbound struct{ client.Client }

func connect(ctx context.Context, remote string) (*northbound, error) {
	tables, err := tables()
	if err != nil {
		return nil, err
	}
	quiet := logr.Discard()
	c, err := client.NewOVSDBClient(tables, client.WithEndpoint(remote), client.WithLogger(&quiet))
	if err != nil {
		return nil, err
	}
	if err := c.Connect(ctx); err != nil {
		return nil, fmt.Errorf("connect to the northbound database: %w", err)
	}
	return &northbound{c}, nil
}

// write puts a network into the database, which must be empty.
func (nb *northbound) write(ctx context.Context, n Network) error {
	ops, err := nb.Create(n.rows()...)
	if err != nil {
		return fmt.Errorf("write the logical network: %w", err)
	}
	_, err = ovs.Transact(ctx, nb, ops...)
	return err
}

// Columns of the one row of the table NB_Global.
const (
	count      = "nb_cfg" // counted up by who wants to know when all have followed
	translated = "sb_cfg" // what ovn-northd has followed to
	reached    = "hv_cfg" // what the slowest machine has followed to
)

// wait returns when every port of a pod is bound and all machines have the
// flows for all of them. The database holds transactions back until they can
// be done; to wait is an operation of its own.
func (nb *northbound) wait(ctx context.Context, ports []Port) error {
	// First the ports: the count does not wait for a machine that is not known.
	var bound []ovsdb.Operation
	for _, p := range ports {
		bound = append(bound, waitOp(tablePort, ovsdb.Row{"name": p.Name},
			ovsdb.NewCondition("name", ovsdb.ConditionEqual, p.Name), ovsdb.NewCondition("up", ovsdb.ConditionEqual, true)))
	}
	if _, err := ovs.Transact(ctx, nb, bound...); err != nil {
		return err
	}
	if err := nb.follow(ctx, reached); err != nil {
		return fmt.Errorf("wait until all machines have written their flows: %w", err)
	}
	return nil
}

// follow counts up, and returns when the other column has followed.
func (nb *northbound) follow(ctx context.Context, column string) error {
	results, err := ovs.Transact(ctx, nb,
		ovsdb.Operation{
			Op: ovsdb.OperationMutate, Table: tableGlobal,
			Where:     []ovsdb.Condition{ovsdb.NewCondition(count, ovsdb.ConditionGreaterThanOrEqual, 0)}, // the only row
			Mutations: []ovsdb.Mutation{*ovsdb.NewMutation(count, ovsdb.MutateOperationAdd, 1)},
		},
		ovsdb.Operation{Op: ovsdb.OperationSelect, Table: tableGlobal, Columns: []string{count}})
	if err != nil {
		return err
	}
	rows := results[1].Rows
	if len(rows) != 1 {
		return fmt.Errorf("the northbound database has %d rows of %s", len(rows), tableGlobal)
	}
	step, ok := rows[0][count].(float64)
	if !ok {
		return fmt.Errorf("%s in the northbound database is %v", count, rows[0][count])
	}
	_, err = ovs.Transact(ctx, nb, waitOp(tableGlobal, ovsdb.Row{count: int(step)},
		ovsdb.NewCondition(column, ovsdb.ConditionGreaterThanOrEqual, int(step))))
	return err
}

// waitOp waits until the row, as far as it is given, is the one that meets the
// conditions.
func waitOp(table string, row ovsdb.Row, where ...ovsdb.Condition) ovsdb.Operation {
	var columns []string
	for column := range row {
		columns = append(columns, column)
	}
	return ovsdb.Operation{
		Op: ovsdb.OperationWait, Table: table, Where: where,
		Columns: columns, Until: string(ovsdb.WaitConditionEqual), Rows: []ovsdb.Row{row},
	}
}

// unbound lists the names of the ports that no machine has bound, for an
// error; ctx may have ended.
func (nb *northbound) unbound(ctx context.Context) (names []string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	down := []ovsdb.Condition{
		ovsdb.NewCondition("type", ovsdb.ConditionEqual, ""), ovsdb.NewCondition("up", ovsdb.ConditionNotEqual, true),
	}
	results, err := ovs.Transact(ctx, nb, ovsdb.Operation{
		Op: ovsdb.OperationSelect, Table: tablePort, Where: down, Columns: []string{"name"},
	})
	if err != nil {
		return nil // there is an error already
	}
	for _, row := range results[0].Rows {
		names = append(names, fmt.Sprint(row["name"]))
	}
	slices.Sort(names)
	return names
}
