package ovs

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	"github.com/ovn-org/libovsdb/client"
	"github.com/ovn-org/libovsdb/model"
	"github.com/ovn-org/libovsdb/ovsdb"

	"github.com/venturi-net/venturi/internal/netcfg"
)

// StartDatabase makes a database and starts a server for it alone. name is
// that of its file and of its socket; schema is the file of its schema, empty
// for that of a switch. The server is up when this returns.
func StartDatabase(ctx context.Context, r Runtime, name, schema string) (*netcfg.Child, error) {
	create := []string{"create", r.file(name + ".db")}
	if schema != "" {
		create = append(create, schema)
	}
	if err := r.run(ctx, "", toolProgram, create...); err != nil {
		return nil, fmt.Errorf("make database %s: %w", name, err)
	}
	server, err := r.Daemon(name, serverProgram, r.file(name+".db"), "--remote=p"+r.Remote(name))
	if err != nil {
		return nil, err
	}
	// It takes commands when its database is open and it listens.
	err = server.Await(ctx, daemonTimeout, func(ctx context.Context) error {
		_, err := r.Ask(ctx, name, "version")
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("start the server of database %s: %w", name, err)
	}
	return server, nil
}

// Remote is how clients are told of the database of that name.
func (r Runtime) Remote(name string) string { return "unix:" + r.file(name+".sock") }

// database is a connection to the database of a switch.
type database struct {
	client client.Client
	root   ovsdb.UUID // of the one row of the table Open_vSwitch
}

// Tables of the database.
const (
	tableRoot      = "Open_vSwitch"
	tableBridge    = "Bridge"
	tablePort      = "Port"
	tableInterface = "Interface"
)

// connect connects to the database of a switch and gives it its first row.
func connect(ctx context.Context, remote string) (*database, error) {
	// Rows are read and written as they are: no models, no copy of the tables.
	none, err := model.NewClientDBModel(tableRoot, nil)
	if err != nil {
		return nil, err
	}
	quiet := logr.Discard()
	c, err := client.NewOVSDBClient(none, client.WithEndpoint(remote), client.WithLogger(&quiet))
	if err != nil {
		return nil, err
	}
	if err := c.Connect(ctx); err != nil {
		return nil, err
	}
	db := &database{client: c}
	results, err := Transact(ctx, db.client, ovsdb.Operation{
		Op: ovsdb.OperationInsert, Table: tableRoot,
		Row: ovsdb.Row{"next_cfg": 0}, // the library leaves an empty row out
	})
	if err != nil {
		c.Close()
		return nil, err
	}
	db.root = results[0].UUID
	return db, nil
}

// Transact does all of the operations or none.
func Transact(ctx context.Context, c client.Client, ops ...ovsdb.Operation) ([]ovsdb.OperationResult, error) {
	results, err := c.Transact(ctx, ops...)
	if err != nil {
		return nil, fmt.Errorf("talk to the database: %w", err)
	}
	failed, err := ovsdb.CheckOperationResults(results, ops)
	if err == nil {
		return results, nil
	}
	for _, f := range failed {
		err = errors.Join(err, f)
	}
	return nil, fmt.Errorf("change the database: %w", err)
}

// theRoot is the condition that meets the root row.
func (db *database) theRoot() ovsdb.Condition {
	return ovsdb.NewCondition("_uuid", ovsdb.ConditionEqual, db.root)
}

// named is the condition that meets the row of a name.
func named(name string) []ovsdb.Condition {
	return []ovsdb.Condition{ovsdb.NewCondition("name", ovsdb.ConditionEqual, name)}
}

// change does the operations and gives the number of the configuration that
// they make; see [database.reached].
func (db *database) change(ctx context.Context, ops ...ovsdb.Operation) (number int, err error) {
	const counter = "next_cfg"
	ops = append(ops,
		ovsdb.Operation{
			Op: ovsdb.OperationMutate, Table: tableRoot, Where: []ovsdb.Condition{db.theRoot()},
			Mutations: []ovsdb.Mutation{*ovsdb.NewMutation(counter, ovsdb.MutateOperationAdd, 1)},
		},
		ovsdb.Operation{
			Op: ovsdb.OperationSelect, Table: tableRoot, Where: []ovsdb.Condition{db.theRoot()}, Columns: []string{counter},
		})
	results, err := Transact(ctx, db.client, ops...)
	if err != nil {
		return 0, err
	}
	rows := results[len(results)-1].Rows
	if len(rows) != 1 {
		return 0, errors.New("change the database: its first row is gone")
	}
	n, ok := rows[0][counter].(float64)
	if !ok {
		return 0, fmt.Errorf("change the database: %s is %v", counter, rows[0][counter])
	}
	return int(n), nil
}

// reached waits until the switch has taken the configuration of that number,
// or a later one, and then does further operations, whose results it gives.
func (db *database) reached(ctx context.Context, number int, then ...ovsdb.Operation) ([]ovsdb.OperationResult, error) {
	const column = "_uuid"
	wait := ovsdb.Operation{
		Op: ovsdb.OperationWait, Table: tableRoot,
		Where:   []ovsdb.Condition{db.theRoot(), ovsdb.NewCondition("cur_cfg", ovsdb.ConditionGreaterThanOrEqual, number)},
		Columns: []string{column}, Until: string(ovsdb.WaitConditionEqual), Rows: []ovsdb.Row{{column: db.root}},
	}
	results, err := Transact(ctx, db.client, append([]ovsdb.Operation{wait}, then...)...)
	if err != nil {
		return nil, err
	}
	return results[1:], nil
}

// set writes keys of a column of the root row that is a map.
func (db *database) set(ctx context.Context, column string, values map[string]string) error {
	keys := make([]string, 0, len(values))
	for key := range values {
		keys = append(keys, key)
	}
	old, err := ovsdb.NewOvsSet(keys)
	if err != nil {
		return err
	}
	_, err = Transact(ctx, db.client, ovsdb.Operation{
		Op: ovsdb.OperationMutate, Table: tableRoot, Where: []ovsdb.Condition{db.theRoot()},
		Mutations: []ovsdb.Mutation{
			// Inserting leaves a key alone that is there already.
			*ovsdb.NewMutation(column, ovsdb.MutateOperationDelete, old),
			*ovsdb.NewMutation(column, ovsdb.MutateOperationInsert, textMap(values)),
		},
	})
	return err
}

// textMap is a map as the database takes it.
func textMap(values map[string]string) ovsdb.OvsMap {
	m := ovsdb.OvsMap{GoMap: map[any]any{}}
	for key, value := range values {
		m.GoMap[key] = value
	}
	return m
}

// references is a set of rows that the same transaction makes.
func references(names ...string) ovsdb.OvsSet {
	var s ovsdb.OvsSet
	for _, name := range names {
		s.GoSet = append(s.GoSet, ovsdb.UUID{GoUUID: name})
	}
	return s
}
