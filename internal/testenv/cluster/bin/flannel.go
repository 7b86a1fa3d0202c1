package main

import (
	"context"
	"fmt"
	"net"
	"sync"

	"github.com/flannel-io/flannel/pkg/backend"
	_ "github.com/flannel-io/flannel/pkg/backend/hostgw"
	_ "github.com/flannel-io/flannel/pkg/backend/vxlan"
	"github.com/flannel-io/flannel/pkg/ip"
	"github.com/flannel-io/flannel/pkg/lease"
	"github.com/flannel-io/flannel/pkg/subnet"
	"github.com/flannel-io/flannel/pkg/subnet/kube"
	"github.com/flannel-io/flannel/pkg/trafficmngr/iptables"
	"github.com/spf13/cobra"
	genericapiserver "k8s.io/apiserver/pkg/server"
)

// flannelOptions is what a node tells flanneld.
type flannelOptions struct {
	netConf, kubeconfig, device, subnetFile string
}

// newFlannelCommand is flanneld of Flannel's own packages. Flannel's main package cannot
// be built from the module proxy: it imports backends whose modules are not served.
func newFlannelCommand() *cobra.Command {
	var o flannelOptions
	cmd := &cobra.Command{
		Use:          "flanneld",
		SilenceUsage: true,
		RunE: func(*cobra.Command, []string) error {
			return o.run(genericapiserver.SetupSignalContext())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.netConf, "net-conf", "/etc/kube-flannel/net-conf.json", "file with the network's configuration")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "file that says how to reach the API server")
	f.StringVar(&o.device, "iface", "eth0", "device towards the other nodes")
	f.StringVar(&o.subnetFile, "subnet-file", "/run/flannel/subnet.env", "file to write the node's subnet to")
	return cmd
}

// resync is how often, in seconds, flanneld restores its iptables rules.
const resync = 60

// run registers the node's network, writes its rules and its subnet file, and follows
// the other nodes until ctx ends.
func (o flannelOptions) run(ctx context.Context) error {
	const prefix = "flannel.alpha.coreos.com"
	subnets, err := kube.NewSubnetManager(ctx, "", o.kubeconfig, prefix, o.netConf, false)
	if err != nil {
		return fmt.Errorf("open subnet manager: %w", err)
	}
	conf, err := subnets.GetNetworkConfig(ctx)
	if err != nil {
		return fmt.Errorf("read network configuration: %w", err)
	}
	uplink, err := o.uplink()
	if err != nil {
		return err
	}
	driver, err := backend.NewManager(ctx, subnets, uplink).GetBackend(conf.BackendType)
	if err != nil {
		return fmt.Errorf("find backend %s: %w", conf.BackendType, err)
	}
	var workers sync.WaitGroup
	network, err := driver.RegisterNetwork(ctx, &workers, conf)
	if err != nil {
		return fmt.Errorf("register network: %w", err)
	}
	if err := writeRules(ctx, conf, network.Lease()); err != nil {
		return err
	}
	lease := network.Lease()
	if err := subnet.WriteSubnetFile(o.subnetFile, conf, true, lease.Subnet, lease.IPv6Subnet, network.MTU()); err != nil {
		return fmt.Errorf("write %s: %w", o.subnetFile, err)
	}
	network.Run(ctx)
	workers.Wait()
	return nil
}

// uplink is the device that carries traffic to other nodes.
func (o flannelOptions) uplink() (*backend.ExternalInterface, error) {
	link, err := net.InterfaceByName(o.device)
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", o.device, err)
	}
	addrs, err := ip.GetInterfaceIP4Addrs(link)
	if err != nil {
		return nil, fmt.Errorf("read addresses of %s: %w", o.device, err)
	}
	return &backend.ExternalInterface{Iface: link, IfaceName: link.Name, IfaceAddr: addrs[0], ExtAddr: addrs[0]}, nil
}

// writeRules adds Flannel's masquerading and forwarding rules.
func writeRules(ctx context.Context, conf *subnet.Config, own *lease.Lease) error {
	var rules iptables.IPTablesManager
	if err := rules.Init(ctx); err != nil {
		return fmt.Errorf("open iptables: %w", err)
	}
	var noIPv6 ip.IP6Net
	err := rules.SetupAndEnsureMasqRules(ctx, conf.Network, ip.IP4Net{}, ip.IP4Net{}, noIPv6, noIPv6, noIPv6, own, resync, false)
	if err != nil {
		return fmt.Errorf("write masquerading rules: %w", err)
	}
	rules.SetupAndEnsureForwardRules(ctx, conf.Network, noIPv6, resync)
	return nil
}
