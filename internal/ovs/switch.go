package ovs

import (
	"context"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/ovn-org/libovsdb/ovsdb"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
)

// Names of the daemons of a switch.
const (
	databaseName = "conf"
	switchName   = "vswitchd"
)

// Switch is a running Open vSwitch.
type Switch struct {
	Version string // of the switch daemon, such as 3.1.0

	runtime Runtime
	db      *database
	server  *netcfg.Child
	daemon  *netcfg.Child
}

// Start starts the daemons of a switch. It has no bridges yet.
func Start(ctx context.Context, r Runtime) (*Switch, error) {
	server, err := StartDatabase(ctx, r, databaseName, "")
	if err != nil {
		return nil, err
	}
	s := &Switch{runtime: r, server: server}
	err = While(ctx, daemonTimeout, "open a connection", func(ctx context.Context) (err error) {
		s.db, err = connect(ctx, s.Remote())
		return err
	}, server)
	if err != nil {
		return nil, fmt.Errorf("connect to the database of the switch: %w", err)
	}
	if err := s.start(ctx); err != nil {
		s.Close()
		return nil, fmt.Errorf("start the switch: %w", err)
	}
	return s, nil
}

// start starts the switch daemon, which is up when it takes commands.
func (s *Switch) start(ctx context.Context) (err error) {
	if s.daemon, err = s.runtime.Daemon(switchName, switchProgram, s.Remote()); err != nil {
		return err
	}
	return s.daemon.Await(ctx, daemonTimeout, func(ctx context.Context) (err error) {
		s.Version, err = s.runtime.Version(ctx, switchName)
		return err
	})
}

// Close closes the connection to the database. The daemons go on.
func (s *Switch) Close() { s.db.client.Close() }

// Remote is how other daemons are told of the switch's database.
func (s *Switch) Remote() string { return s.runtime.Remote(databaseName) }

// Datapaths that a bridge can have.
const (
	Kernel = "system" // a part of the kernel forwards
	Daemon = "netdev" // the switch daemon does
)

// Bridge is a bridge of the switch. It forwards nothing until flows say so.
type Bridge struct {
	Name     string
	Datapath string           // [Kernel] or [Daemon]
	MAC      net.HardwareAddr // of its own port, which has its name; nil: chosen by the switch
	Ports    []Port
}

// Port is a port of a bridge with its one interface.
type Port struct {
	Name        string            // of the network device, unless Type is that of a tunnel
	Type        string            // empty: a network device that is there; "internal", "vxlan", ...
	Number      int               // that flows know it by; 0: chosen by the switch
	MAC         net.HardwareAddr  // of an internal port; nil: chosen by the switch
	MTU         int               // of an internal port, bytes; 0: the least of the bridge's ports
	Options     map[string]string // of the interface, as Type has them
	ExternalIDs map[string]string // of the interface
}

// AddBridges makes bridges with their ports, and returns when the switch has
// them. Error: the switch could not make one of them, and why.
func (s *Switch) AddBridges(ctx context.Context, bridges ...Bridge) error {
	var ops []ovsdb.Operation
	var made []string
	var ports []Port
	for i, b := range bridges {
		if b.Datapath == Kernel {
			if err := awaitBoot(ctx); err != nil {
				return err
			}
		}
		own := Port{Name: b.Name, Type: "internal"}
		all := append([]Port{own}, b.Ports...)
		inserts, refs := insertPorts(len(ports), all)
		config := map[string]string{}
		if b.MAC != nil {
			config["hwaddr"] = b.MAC.String()
		}
		name := fmt.Sprintf("bridge%d", i)
		ops = append(ops, inserts...)
		ops = append(ops, ovsdb.Operation{
			Op: ovsdb.OperationInsert, Table: tableBridge, UUIDName: name, Row: ovsdb.Row{
				"name": b.Name, "datapath_type": b.Datapath, "fail_mode": "secure",
				"other_config": textMap(config), "ports": references(refs...),
			},
		})
		made = append(made, name)
		ports = append(ports, all...)
	}
	ops = append(ops, ovsdb.Operation{
		Op: ovsdb.OperationMutate, Table: tableRoot, Where: []ovsdb.Condition{s.db.theRoot()},
		Mutations: []ovsdb.Mutation{*ovsdb.NewMutation("bridges", ovsdb.MutateOperationInsert, references(made...))},
	})
	return s.apply(ctx, ops, ports)
}

// insertPorts makes the rows of ports; refs stand for them in the same
// transaction. first keeps the names of rows apart from those of others.
func insertPorts(first int, ports []Port) (ops []ovsdb.Operation, refs []string) {
	for i, p := range ports {
		row := ovsdb.Row{
			"name": p.Name, "type": p.Type, "options": textMap(p.Options), "external_ids": textMap(p.ExternalIDs),
		}
		if p.Number != 0 {
			row["ofport_request"] = p.Number
		}
		if p.MAC != nil {
			row["mac"] = p.MAC.String()
		}
		if p.MTU != 0 {
			row["mtu_request"] = p.MTU
		}
		device, port := fmt.Sprintf("interface%d", first+i), fmt.Sprintf("port%d", first+i)
		ops = append(ops,
			ovsdb.Operation{Op: ovsdb.OperationInsert, Table: tableInterface, UUIDName: device, Row: row},
			ovsdb.Operation{Op: ovsdb.OperationInsert, Table: tablePort, UUIDName: port, Row: ovsdb.Row{
				"name": p.Name, "interfaces": references(device),
			}})
		refs = append(refs, port)
	}
	return ops, refs
}

// apply changes the database, waits until the switch has done the same, and
// reports what it could not do with the given ports.
func (s *Switch) apply(ctx context.Context, ops []ovsdb.Operation, ports []Port) error {
	var look []ovsdb.Operation
	for _, p := range ports {
		look = append(look, ovsdb.Operation{
			Op: ovsdb.OperationSelect, Table: tableInterface, Where: named(p.Name), Columns: []string{"error", "ofport"},
		})
	}
	return s.while(ctx, "change the switch", func(ctx context.Context) error {
		number, err := s.db.change(ctx, ops...)
		if err != nil {
			return err
		}
		found, err := s.db.reached(ctx, number, look...)
		if err != nil {
			return err
		}
		for i, p := range ports {
			if err := interfaceErrors(found[i].Rows); err != nil {
				return fmt.Errorf("add port %s: %w", p.Name, err)
			}
		}
		return nil
	})
}

// interfaceErrors reads from the row of an interface whether the switch has it.
func interfaceErrors(rows []ovsdb.Row) error {
	if len(rows) != 1 {
		// A port that no bridge has is removed in the transaction that makes it.
		return fmt.Errorf("there is no such bridge")
	}
	if text, ok := rows[0]["error"].(string); ok {
		return fmt.Errorf("the switch says: %s", text)
	}
	if n, ok := rows[0]["ofport"].(float64); !ok || n < 0 {
		return fmt.Errorf("the switch gave it no number")
	}
	return nil
}

// while runs fn as long as both daemons live.
func (s *Switch) while(ctx context.Context, what string, fn func(context.Context) error) error {
	return While(ctx, daemonTimeout, what, fn, s.server, s.daemon)
}

// Configure sets keys of the switch's other_config, such as vlan-limit. It
// holds for bridges that are made after it.
func (s *Switch) Configure(ctx context.Context, values map[string]string) error {
	return s.set(ctx, "other_config", values)
}

// SetExternalIDs sets keys of the switch's external_ids, which others such as
// ovn-controller read.
func (s *Switch) SetExternalIDs(ctx context.Context, values map[string]string) error {
	return s.set(ctx, "external_ids", values)
}

func (s *Switch) set(ctx context.Context, column string, values map[string]string) error {
	return s.while(ctx, "set "+column, func(ctx context.Context) error { return s.db.set(ctx, column, values) })
}

// openAgain is how long to wait before a connection that was closed is opened again.
const openAgain = 50 * time.Millisecond

// AddFlows adds flows to a bridge, written as ovs-ofctl takes them; all of them
// or, on an error, none.
func (s *Switch) AddFlows(ctx context.Context, bridge string, flows ...string) error {
	err := s.while(ctx, "write them", func(ctx context.Context) error {
		for {
			err := s.runtime.run(ctx, strings.Join(flows, "\n")+"\n", flowsProgram, "--protocols=OpenFlow13", "--bundle",
				"add-flows", "unix:"+s.runtime.file(bridge+".mgmt"), "-")
			// A switch that looks its bridges over once more closes what is being
			// opened to one of them.
			if err == nil || !strings.Contains(err.Error(), "failed to connect to socket") {
				return err
			}
			if host.Sleep(ctx, openAgain) != nil {
				return err
			}
		}
	})
	if err != nil {
		return fmt.Errorf("add flows to %s: %w", bridge, err)
	}
	return nil
}
