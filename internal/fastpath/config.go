package fastpath

import (
	"errors"
	"fmt"

	"github.com/venturi-net/venturi/internal/fastpath/audit"
	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
)

// Config is the configuration of a daemon, a JSON file.
type Config struct {
	Kind string `json:"kind"` // [VXLAN], [Geneve], [IPIP], [Routed], [Routed6] or [VXLAN6]
	// Devices are the host's devices on the path of packets, by name. They may come and
	// go while the daemon runs.
	Devices topology.DeviceNames `json:"devices"`
	Port    uint16               `json:"port,omitempty"`   // UDP port of the tunnels
	Stamp   uint8                `json:"stamp"`            // distinguishes fast paths of one host, 0 to 15
	TC      bool                 `json:"tc,omitempty"`     // attach programs as tc filters, as on kernels without tcx
	NoNAT   bool                 `json:"no_nat,omitempty"` // leave flows slow whose addresses or ports are translated
	Shadow  bool                 `json:"shadow,omitempty"` // carry nothing, but compare what would be carried with what the network sends
	// KeepCounters are the kinds of counters for whose sake nothing is carried where there are any;
	// see [CounterKinds].
	KeepCounters []string `json:"keep_counters,omitempty"`

	Pins  string `json:"pins"`  // folder for pinned programs and tables, which outlive the daemon
	State string `json:"state"` // file that the daemon replaces when its state changes
}

// Kinds of fast path.
const (
	VXLAN  = bpf.VXLAN
	Geneve = bpf.Geneve
	IPIP   = bpf.IPIP
	Routed = bpf.Routed
	// Routed6 is the same for IPv6. A host with both versions has a daemon for each.
	Routed6 = bpf.Routed6
	// VXLAN6 is for IPv6 in VXLAN over IPv6: carried packets pass the vxlan device, and skip what is before it.
	VXLAN6 = bpf.VXLAN6
)

// Load reads a daemon's config.
func Load(file string) (*Config, error) {
	c := new(Config)
	if err := host.ReadJSON(file, c); err != nil {
		return nil, fmt.Errorf("read config: %w", err)
	}
	return c, c.check()
}

func (c *Config) check() error {
	switch {
	case c.Kind != Routed && c.Kind != Routed6 && !c.hasTunnels():
		return fmt.Errorf("unknown kind of fast path %q", c.Kind)
	case c.hasTunnels() && len(c.Devices.Tunnels) == 0, c.tunnelsInUDP() && c.Port == 0:
		return errors.New("an overlay needs a tunnel's device, and one of VXLAN or Geneve a port")
	case c.Devices.Wire == "" || c.Pins == "" || c.State == "":
		return errors.New("wire, pins or state is missing")
	}
	return nil
}

// family is the version of IP that is carried.
func (c *Config) family() audit.Family {
	if c.Kind == Routed6 || c.Kind == VXLAN6 {
		return audit.IPv6
	}
	return audit.IPv4
}

// hasTunnels: packets travel between hosts in tunnels.
func (c *Config) hasTunnels() bool { return c.tunnelsInUDP() || c.Kind == IPIP }

func (c *Config) tunnelsInUDP() bool { return c.Kind == VXLAN || c.Kind == Geneve || c.Kind == VXLAN6 }

// Write writes the config for a daemon to read.
func (c *Config) Write(file string) error {
	if err := netcfg.ReplaceJSON(file, c); err != nil {
		return fmt.Errorf("write config: %w", err)
	}
	return nil
}
