package guest

import (
	"bytes"
	"fmt"
	"net"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
)

// setUpNetwork brings up the loopback device and the cards, after the sysctls that may apply to
// them.
func setUpNetwork(c Config) error {
	n, err := netcfg.OpenGuest()
	if err != nil {
		return err
	}
	defer n.Close()
	if err := n.Sysctl(c.Settings...); err != nil {
		return err
	}
	if err := n.Up("lo"); err != nil {
		return err
	}
	for _, nic := range c.NICs {
		if err := setUpNIC(n, nic); err != nil {
			return fmt.Errorf("set up the network card %s: %w", nic.MAC, err)
		}
	}
	return nil
}

func setUpNIC(n *netcfg.Namespace, nic NIC) error {
	device, err := deviceOf(nic.MAC)
	if err != nil {
		return err
	}
	if nic.Addr.IsValid() {
		if err := n.AddAddr(device, nic.Addr); err != nil {
			return err
		}
	}
	if err := n.Up(device); err != nil {
		return err
	}
	for _, other := range nic.Neighbours {
		mac, err := net.ParseMAC(other.MAC)
		if err != nil {
			return err
		}
		if err := n.AddNeighbour(device, other.Addr, mac); err != nil {
			return err
		}
	}
	return nil
}

// deviceOf finds the device with a MAC.
func deviceOf(mac string) (string, error) {
	want, err := net.ParseMAC(mac)
	if err != nil {
		return "", err
	}
	links, err := host.Links()
	if err != nil {
		return "", err
	}
	for _, l := range links {
		if bytes.Equal(l.Attrs().HardwareAddr, want) {
			return l.Attrs().Name, nil
		}
	}
	return "", fmt.Errorf("none of the %d devices has this MAC", len(links))
}
