package path

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath/topology"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
)

// Paths with Venturi's fast path over them: the same devices, and a daemon on each
// machine that carries established flows past them.
var (
	routedFast = withFastPath(routed, func(s *Site, i int) fastpath.Config {
		return fastpath.Config{Kind: fastpath.Routed, Devices: topology.DeviceNames{Pods: []string{s.routedDevice()}}}
	})
	ipipFast = withFastPath(ipip.omitOption("mode"), func(s *Site, i int) fastpath.Config {
		return fastpath.Config{
			Kind: fastpath.IPIP, Devices: topology.DeviceNames{Tunnels: []string{s.ipipTunnel()}, Pods: []string{s.routedDevice()}},
		}
	})
	geneveFast = withFastPath(geneve.omitOption("devices").omitOption("tunnels").wiredBy("nodes with a geneve device for each peer"), func(s *Site, i int) fastpath.Config {
		var tunnels []string
		for j := range s.otherMachines(i) {
			tunnels = append(tunnels, s.geneveDeviceTo(j))
		}
		return fastpath.Config{
			Kind: fastpath.Geneve, Port: uint16(s.Port),
			Devices: topology.DeviceNames{Tunnels: tunnels, Pods: []string{s.bridgePort(0)}},
		}
	})
	netkitFast = withFastPath(netkit, func(s *Site, i int) fastpath.Config {
		return fastpath.Config{Kind: fastpath.Routed, Devices: topology.DeviceNames{Pods: []string{s.netkitDevice()}}}
	})
	vxlanFast = withFastPath(vxlan, func(s *Site, i int) fastpath.Config {
		return fastpath.Config{
			Kind: fastpath.VXLAN, Port: uint16(s.Options.Int("port")),
			Devices: topology.DeviceNames{Tunnels: []string{s.vxlanTunnelDevice(0)}, Pods: []string{s.bridgePort(0)}},
		}
	})
)

// omitOption is the driver without one of its options.
func (d Driver) omitOption(option string) Driver {
	d.Options = slices.DeleteFunc(slices.Clone(d.Options), func(o Option) bool { return o.Name == option })
	return d
}

// wiredBy is the driver with another example.
func (d Driver) wiredBy(example string) Driver {
	d.Example = example
	return d
}

// withFastPath gives a driver that lays the fast path over the path of another. devices
// says what the fast path of the i-th machine joins.
func withFastPath(over Driver, devices func(s *Site, i int) fastpath.Config) Driver {
	d := over
	d.Name += "+fast"
	d.Summary += ", and Venturi's fast path"
	d.Example += ", accelerated"
	d.Options = append(slices.Clip(over.Options), choice("attach", []string{attachAuto, attachTCX, attachTC}, attachAuto,
		"how the fast path's programs are attached: by tcx (Linux 6.6 or later), as tc filters, or by the first of them that works"))
	d.Needs = func(v Values) []feature.Need {
		var needs []feature.Need
		if over.Needs != nil {
			needs = over.Needs(v)
		}
		if v["attach"] == attachTCX {
			needs = append(needs, feature.TCX)
		}
		return append(needs, feature.Programs)
	}
	d.Resolve = func(v Values) error {
		if v["tunnels"] != "" && v.Int("tunnels") != 1 {
			return errors.New("the fast path supports one tunnel only")
		}
		if over.Resolve == nil {
			return nil
		}
		return over.Resolve(v)
	}
	d.Up = func(ctx context.Context, s *Site) (Ends, error) {
		ends, err := over.Up(ctx, s)
		if err != nil {
			return nil, err
		}
		_, err = s.buildMachines(ctx, func(i int) ([]host.Endpoint, error) {
			c := devices(s, i)
			if c.Kind == fastpath.VXLAN || c.Kind == fastpath.Geneve {
				if err := s.Machines[i].In.AddHeadroom(s.headroomDevice(), s.podBridge()); err != nil {
					return nil, err
				}
			}
			c.Devices.Wire, c.Stamp = s.Machines[i].Wire, uint8(s.Index%fastPaths)
			c.TC = s.Options["attach"] == attachTC
			return nil, s.startFastPath(ctx, i, c)
		})
		return ends, err
	}
	return d
}

// What programs can be at a device.
const (
	attachAuto = "auto"
	attachTCX  = "tcx"
	attachTC   = "tc"
)

// headroomDevice makes pods leave room for the headers of the tunnel.
func (s *Site) headroomDevice() string { return fmt.Sprintf("room%d", s.Index) }

// fastPaths is how many fast paths can tell their packets apart on one machine.
const fastPaths = 16

// fastReady is how long the daemon may take until it knows its peers and pods.
var fastReady = host.ScaleTimeout(10 * time.Second)

// startFastPath starts the fast path's daemon on a machine.
func (s *Site) startFastPath(ctx context.Context, i int, c fastpath.Config) error {
	folder, err := s.Folder(i)
	if err != nil {
		return err
	}
	c.Pins = filepath.Join(folder, "bpf")
	c.State = fastpath.StateFile(c.Pins)
	file := filepath.Join(folder, "fast.json")
	if err := c.Write(file); err != nil {
		return err
	}
	child, err := s.Start(i, s.Machines[i].In, netcfg.Command{
		Args: append(append([]string{}, s.Program...), "fastpath", "--config", file),
		Log:  filepath.Join(folder, "fast.log"),
	})
	if err != nil {
		return err
	}
	err = child.Await(ctx, fastReady, func(context.Context) error {
		state, err := fastpath.ReadState(c.State)
		switch {
		case err != nil:
			return err
		case state.Peers < len(s.Machines)-1:
			return fmt.Errorf("it knows %d of %d peers", state.Peers, len(s.Machines)-1)
		case state.Pods < len(c.Devices.Pods) && len(state.Refused) == 0:
			return fmt.Errorf("it knows %d of %d pods", state.Pods, len(c.Devices.Pods))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("start the fast path on %s: %w", s.Machines[i].Name, err)
	}
	s.Pins(i, c.Pins)
	return nil
}
