package ovs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/ovn-org/libovsdb/client"
	"github.com/ovn-org/libovsdb/model"
	"github.com/ovn-org/libovsdb/ovsdb"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/setting"
)

// Where the databases of a machine's own Open vSwitch and OVN are, when nobody
// says otherwise.
const (
	switchSocket     = "/run/openvswitch/db.sock"
	northboundSocket = "/run/ovn/ovnnb_db.sock"
)

// Names of databases.
const (
	switchDatabase     = "Open_vSwitch"
	northboundDatabase = "OVN_Northbound"
)

// field is where in a database a value is.
type field struct {
	socket, database, table string
	row                     string // the UUID of it; [onlyRow] where the table has one
	column                  string // a map of texts, or a set of rows
	key                     string // in the map; empty: the column is a set
}

const onlyRow = "."

// setting names the field: the socket, a blank, and the rest with slashes.
func (f field) setting() setting.Setting {
	return setting.Setting{Backend: backendName, Key: f.socket + " " + strings.Join([]string{f.database, f.table, f.row, f.column, f.key}, "/")}
}

const backendName = "ovsdb"

func fieldOf(s setting.Setting) (field, error) {
	at := strings.LastIndexByte(s.Key, ' ')
	parts := strings.Split(s.Key[at+1:], "/")
	if at <= 0 || len(parts) != 5 {
		return field{}, fmt.Errorf("%q names no field of a database", s.Key)
	}
	return field{s.Key[:at], parts[0], parts[1], parts[2], parts[3], parts[4]}, nil
}

// OtherConfig is the setting of a key of the switch's other_config, ExternalID that
// of one of its external_ids. An empty socket is that of the machine's own switch.
func OtherConfig(socket, key string) setting.Setting { return rootKey(socket, "other_config", key) }

// ExternalID is as OtherConfig.
func ExternalID(socket, key string) setting.Setting { return rootKey(socket, "external_ids", key) }

func rootKey(socket, column, key string) setting.Setting {
	return field{cmp.Or(socket, switchSocket), switchDatabase, tableRoot, onlyRow, column, key}.setting()
}

// ErrNoDatabase is wrapped by the error of asking a database that does not answer.
var ErrNoDatabase = errors.New("no database answers")

// askLimit is how long a database gets to answer.
var askLimit = host.ScaleTimeout(5 * time.Second)

// ask connects to the database of that name behind a socket.
func ask(socket, name string, fn func(context.Context, client.Client) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), askLimit)
	defer cancel()
	none, err := model.NewClientDBModel(name, nil)
	if err != nil {
		return err
	}
	if !strings.Contains(socket, ":") {
		socket = "unix:" + socket
	}
	quiet := logr.Discard()
	c, err := client.NewOVSDBClient(none, client.WithEndpoint(socket), client.WithLogger(&quiet))
	if err != nil {
		return err
	}
	if err := c.Connect(ctx); err != nil {
		// Not wrapped: that the socket is not there is not that the value is not.
		return fmt.Errorf("%w at %s: %v", ErrNoDatabase, socket, err)
	}
	defer c.Close()
	return fn(ctx, c)
}

// conditions are the conditions that meet the row.
func (f field) conditions() []ovsdb.Condition {
	if f.row == onlyRow {
		return nil
	}
	return []ovsdb.Condition{ovsdb.NewCondition("_uuid", ovsdb.ConditionEqual, ovsdb.UUID{GoUUID: f.row})}
}

// find reads the row: its UUID, and the column.
func (f field) find(ctx context.Context, c client.Client) (id ovsdb.UUID, column any, err error) {
	rows, err := Select(ctx, c, f.table, f.conditions(), "_uuid", f.column)
	if err != nil {
		return id, nil, err
	}
	if len(rows) != 1 {
		return id, nil, fmt.Errorf("row %s of %s: %w: there are %d", f.row, f.table, host.ErrGone, len(rows))
	}
	id, ok := rows[0]["_uuid"].(ovsdb.UUID)
	if !ok {
		return id, nil, fmt.Errorf("row of %s has no UUID", f.table)
	}
	return id, rows[0][f.column], nil
}

// Select reads columns of the rows of a table that meet all conditions.
func Select(ctx context.Context, c client.Client, table string, where []ovsdb.Condition, columns ...string) ([]ovsdb.Row, error) {
	if where == nil {
		where = []ovsdb.Condition{}
	}
	results, err := Transact(ctx, c, ovsdb.Operation{Op: ovsdb.OperationSelect, Table: table, Where: where, Columns: columns})
	if err != nil {
		return nil, err
	}
	return results[0].Rows, nil
}

// Backend is the values in the databases of Open vSwitch and OVN that knobs turn.
// A key names the socket, the database, table, row, column, and the key in a
// column that is a map; that may be absent. The value of a column that is a set
// of rows is their UUIDs, sorted, one a line.
func Backend() setting.Backend {
	return setting.Backend{
		Name:       backendName,
		Persistent: true,
		Read: func(s setting.Setting) (v setting.Value, err error) {
			f, err := fieldOf(s)
			if err != nil {
				return v, err
			}
			err = ask(f.socket, f.database, func(ctx context.Context, c client.Client) error {
				_, column, err := f.find(ctx, c)
				if err == nil {
					v, err = f.value(column)
				}
				return err
			})
			return v, err
		},
		Write: func(s setting.Setting, v setting.Value) error {
			f, err := fieldOf(s)
			if err != nil {
				return err
			}
			return ask(f.socket, f.database, func(ctx context.Context, c client.Client) error {
				id, _, err := f.find(ctx, c)
				if err != nil {
					return err
				}
				return f.write(ctx, c, id, v)
			})
		},
		Replace: func(s setting.Setting, old, v setting.Value) error {
			f, err := fieldOf(s)
			if err != nil {
				return err
			}
			return ask(f.socket, f.database, func(ctx context.Context, c client.Client) error { return f.replace(ctx, c, old, v) })
		},
	}
}

// value is what a column holds for the field.
func (f field) value(column any) (setting.Value, error) {
	if f.key == "" {
		ids, err := uuids(column)
		return setting.Text(strings.Join(ids, "\n")), err
	}
	m, ok := column.(ovsdb.OvsMap)
	if !ok {
		return setting.Value{}, fmt.Errorf("column %s is no map", f.column)
	}
	text, there := m.GoMap[f.key]
	if !there {
		return setting.Value{}, nil
	}
	return setting.Text(fmt.Sprint(text)), nil
}

// uuids reads a set of rows; one of a single row is shown as that row.
func uuids(column any) (ids []string, err error) {
	var list []any
	switch c := column.(type) {
	case ovsdb.UUID:
		list = []any{c}
	case ovsdb.OvsSet:
		list = c.GoSet
	default:
		return nil, fmt.Errorf("%v is no set of rows", column)
	}
	for _, one := range list {
		id, ok := one.(ovsdb.UUID)
		if !ok {
			return nil, fmt.Errorf("%v is no row", one)
		}
		ids = append(ids, id.GoUUID)
	}
	slices.Sort(ids)
	return ids, nil
}

// replace makes the field hold a value if it holds old. Where something else in its
// column changes meanwhile, it looks again.
func (f field) replace(ctx context.Context, c client.Client, old, v setting.Value) error {
	for {
		id, column, err := f.find(ctx, c)
		if err != nil {
			return err
		}
		if now, err := f.value(column); err != nil || !now.Equal(old) {
			return cmp.Or(err, setting.ErrChanged)
		}
		unchanged := ovsdb.Operation{
			Op: ovsdb.OperationWait, Table: f.table, Timeout: new(int), Where: byID(id),
			Columns: []string{f.column}, Until: string(ovsdb.WaitConditionEqual), Rows: []ovsdb.Row{{f.column: column}},
		}
		if err = f.write(ctx, c, id, v, unchanged); !errors.As(err, new(*ovsdb.TimedOut)) || ctx.Err() != nil {
			return err
		}
	}
}

// byID is the condition that meets a row.
func byID(id ovsdb.UUID) []ovsdb.Condition {
	return []ovsdb.Condition{ovsdb.NewCondition("_uuid", ovsdb.ConditionEqual, id)}
}

// write makes the field of a row hold a value, in one transaction with other operations
// before it, and gives a switch time to follow.
func (f field) write(ctx context.Context, c client.Client, id ovsdb.UUID, v setting.Value, first ...ovsdb.Operation) error {
	op := ovsdb.Operation{Table: f.table, Where: byID(id)}
	if f.key == "" {
		op.Op, op.Row = ovsdb.OperationUpdate, ovsdb.Row{f.column: references(strings.Fields(v.String())...)}
		if !v.Present {
			return errors.New("a column cannot be made absent")
		}
	} else {
		old, err := ovsdb.NewOvsSet([]string{f.key})
		if err != nil {
			return err
		}
		op.Op = ovsdb.OperationMutate
		// Inserting leaves a key alone that is there already.
		op.Mutations = []ovsdb.Mutation{*ovsdb.NewMutation(f.column, ovsdb.MutateOperationDelete, old)}
		if v.Present {
			op.Mutations = append(op.Mutations, *ovsdb.NewMutation(f.column, ovsdb.MutateOperationInsert, textMap(map[string]string{f.key: v.String()})))
		}
	}
	if f.database != switchDatabase {
		_, err := Transact(ctx, c, append(first, op)...)
		return err
	}
	db := &database{client: c, root: id}
	number, err := db.change(ctx, append(first, op)...)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, followLimit)
	defer cancel()
	// The value stands whether or not there is a daemon to follow it.
	_, err = db.reached(ctx, number)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) && !os.IsTimeout(err) {
		return err
	}
	return nil
}

// followLimit is how long a switch gets to take what its database says.
var followLimit = host.ScaleTimeout(2 * time.Second)
