// Package ovn runs OVN: a central with its databases, and a controller beside
// the switch of each machine. The network is written into the northbound
// database as Kube-OVN's controller writes it.
package ovn

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/ovs"
)

// The programs that this package runs, and the schemas of the databases.
var (
	northdProgram     = feature.Program{Name: "ovn-northd", Package: "ovn-central"}
	controllerProgram = feature.Program{Name: "ovn-controller", Package: "ovn-host"}
)

var (
	northSchema = feature.File{Path: "/usr/share/ovn/ovn-nb.ovsschema", Package: "ovn-central"}
	southSchema = feature.File{Path: "/usr/share/ovn/ovn-sb.ovsschema", Package: "ovn-central"}
)

// Needs is what OVN needs of the machine beside a switch.
func Needs() []feature.Need {
	return []feature.Need{northdProgram, controllerProgram, northSchema, southSchema}
}

// Names of the daemons of a central, and so of its databases.
const (
	northName  = "nb"
	southName  = "sb"
	northdName = "northd"
)

// Central is a running OVN central.
type Central struct {
	Version string // such as 23.03.1

	runtime ovs.Runtime
	north   *northbound
	ports   []Port
	daemons []*netcfg.Child
}

// StartCentral starts a central for one network, and returns when it has been
// translated for controllers. Only then may they start: one that finds nothing
// there at all dies (seen of OVN 23.03).
func StartCentral(ctx context.Context, p ovs.Runtime, n Network) (*Central, error) {
	var servers [2]*netcfg.Child
	group, groupCtx := errgroup.WithContext(ctx)
	for i, db := range []struct{ name, schema string }{{northName, northSchema.Path}, {southName, southSchema.Path}} {
		group.Go(func() (err error) {
			servers[i], err = ovs.StartDatabase(groupCtx, p, db.name, db.schema)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	c := &Central{runtime: p, ports: n.Ports, daemons: servers[:]}
	if err := c.start(ctx, n); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (c *Central) start(ctx context.Context, n Network) error {
	err := c.while(ctx, "write the logical network", func(ctx context.Context) (err error) {
		if c.north, err = connect(ctx, c.runtime.Remote(northName)); err != nil {
			return err
		}
		return c.north.write(ctx, n)
	})
	if err != nil {
		return err
	}
	// Only now: it would make a row of its own in a database that is empty,
	// where there can be only one.
	northd, err := c.runtime.Daemon(northdName, northdProgram,
		"--ovnnb-db="+c.runtime.Remote(northName), "--ovnsb-db="+c.Remote())
	if err != nil {
		return err
	}
	c.daemons = append(c.daemons, northd)
	err = northd.Await(ctx, daemonTimeout, func(ctx context.Context) (err error) {
		c.Version, err = c.runtime.Version(ctx, northdName)
		return err
	})
	if err != nil {
		return fmt.Errorf("start ovn-northd: %w", err)
	}
	return c.while(ctx, "wait for ovn-northd", func(ctx context.Context) error {
		if err := c.north.follow(ctx, translated); err != nil {
			return fmt.Errorf("translate the logical network: %w", err)
		}
		return nil
	})
}

// Remote is how controllers are told of the southbound database.
func (c *Central) Remote() string { return c.runtime.Remote(southName) }

// Close closes the connection to the database. The daemons go on.
func (c *Central) Close() {
	if c.north != nil {
		c.north.Close()
	}
}

// Wait returns when every pod's port is bound by a machine, and all machines
// have the flows for all of them. Error: a daemon of the central or one of the
// controllers ended, or it takes longer than anything could.
func (c *Central) Wait(ctx context.Context, controllers ...*netcfg.Child) error {
	wait := func(ctx context.Context) error { return c.north.wait(ctx, c.ports) }
	err := c.while(ctx, "wait until all machines have bound their pods", wait, controllers...)
	if err == nil {
		return nil
	}
	if names := c.north.unbound(ctx); len(names) > 0 {
		return fmt.Errorf("no machine has bound %s: %w", strings.Join(names, ", "), err)
	}
	return err
}

// while runs fn as long as the daemons of the central and the given ones live.
func (c *Central) while(
	ctx context.Context, what string, fn func(context.Context) error, others ...*netcfg.Child,
) error {
	return ovs.While(ctx, daemonTimeout, what, fn, slices.Concat(others, c.daemons)...)
}

// Chassis is one machine, as OVN knows it.
type Chassis struct {
	Name     string
	Remote   string     // of the central
	Bridge   string     // of the switch, that pods are plugged into
	Datapath string     // of that bridge
	EncapIP  netip.Addr // outer address of its tunnels
	Csum     bool       // compute the checksum of the tunnels' outer UDP header
	Mappings string     // networks and the bridges that lead there: "name:bridge"; empty: none
}

// StartController puts a switch under a central. The bridge must be there.
func StartController(ctx context.Context, p ovs.Runtime, s *ovs.Switch, c Chassis) (*netcfg.Child, error) {
	// All of it before the controller starts: one that reads an empty
	// database does not look again.
	ids := map[string]string{
		"system-id": c.Name, "hostname": c.Name, "ovn-remote": c.Remote,
		"ovn-encap-type": "geneve", "ovn-encap-ip": c.EncapIP.String(),
		"ovn-encap-csum": strconv.FormatBool(c.Csum),
		"ovn-bridge":     c.Bridge, "ovn-bridge-datapath-type": c.Datapath,
	}
	if c.Mappings != "" {
		ids["ovn-bridge-mappings"] = c.Mappings
	}
	if err := s.SetExternalIDs(ctx, ids); err != nil {
		return nil, err
	}
	// Older ones do not let the file of their control socket be chosen, only
	// its folder; and the switch's own sockets are looked for in its folder.
	command, err := p.Command(controllerProgram, s.Remote(), "-vsyslog:off", "-vconsole:warn")
	if err != nil {
		return nil, err
	}
	command.Log = filepath.Join(p.Folder, "controller.log")
	return p.Start(command)
}
