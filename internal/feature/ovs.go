package feature

import (
	"fmt"

	"github.com/vishvananda/netlink"

	"github.com/venturi-net/venturi/internal/netcfg"
)

// What Open vSwitch needs of the kernel for a datapath in it.
var (
	OVSDatapath = &Probe{
		Name: "Open vSwitch kernel datapath",
		Get: "load the module openvswitch (modprobe openvswitch), run a kernel built with CONFIG_OPENVSWITCH, " +
			"or give the path datapath=netdev, which forwards in the switch's own process",
		// Asking for the family loads the module where there is one.
		Try: func(*netcfg.Namespace) error {
			if _, err := netlink.GenlFamilyGet(ovsFamily); err != nil {
				return fmt.Errorf("find generic netlink family %s: %w", ovsFamily, err)
			}
			return nil
		},
	}
	Geneve = &Probe{
		Name: "geneve device",
		Get:  "load the module geneve (modprobe geneve), or run a kernel built with CONFIG_GENEVE",
		Try:  func(n *netcfg.Namespace) error { return n.AddGeneve(probeGeneve) },
	}
)

const ovsFamily = "ovs_datapath"
