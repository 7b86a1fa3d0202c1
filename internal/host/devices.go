package host

import (
	"fmt"

	"github.com/safchain/ethtool"
	"github.com/vishvananda/netlink"

	"github.com/venturi-net/venturi/internal/nlmsg"
	"github.com/venturi-net/venturi/result"
)

// features are the offloads that change what a data path costs, by the names
// that `ethtool -k` prints for single bits.
var features = []string{
	"rx-checksum",
	"rx-gro",
	"rx-gro-hw",
	"rx-gro-list",
	"rx-lro",
	"rx-udp-gro-forwarding",
	"rx-udp_tunnel-port-offload",
	"tx-checksum-ip-generic",
	"tx-checksum-ipv4",
	"tx-generic-segmentation",
	"tx-scatter-gather",
	"tx-tcp-segmentation",
	"tx-tcp6-segmentation",
	"tx-udp-segmentation",
	"tx-udp_tnl-csum-segmentation",
	"tx-udp_tnl-segmentation",
	"tx-vlan-hw-insert",
}

// devices lists the network devices of the calling thread's namespace.
// Loopback is left out: nothing that is measured crosses it.
func devices(space string) ([]result.Device, error) {
	h, links, err := openLinks()
	if err != nil {
		return nil, err
	}
	defer h.Close()
	tool, toolErr := ethtool.NewEthtool()
	if toolErr == nil {
		defer tool.Close()
	}
	var list []result.Device
	for _, link := range links {
		a := link.Attrs()
		if a.Name == "lo" {
			continue
		}
		d := result.Device{
			Namespace: space,
			Name:      a.Name,
			Kind:      link.Type(),
			MTU:       a.MTU,
			Qdisc:     qdisc(h, link),
		}
		if toolErr == nil {
			if all, err := AskEthtool(tool.Features, a.Name); err == nil {
				d.Features = pick(all)
			}
		}
		list = append(list, d)
	}
	return list, nil
}

// Links lists the links of the calling thread's namespace. The kernel may
// break off a dump when something changes meanwhile; then it is asked again.
func Links() ([]netlink.Link, error) {
	h, links, err := openLinks()
	if err != nil {
		return nil, err
	}
	h.Close()
	return links, nil
}

// openLinks lists the links, and gives what to ask more about them with; the
// caller closes it.
func openLinks() (h *netlink.Handle, links []netlink.Link, err error) {
	if h, err = netlink.NewHandle(netlinkRoute); err != nil {
		return nil, nil, fmt.Errorf("open netlink: %w", err)
	}
	if links, err = nlmsg.Dump(h.LinkList); err != nil {
		h.Close()
		return nil, nil, fmt.Errorf("list links: %w", err)
	}
	return h, links, nil
}

const netlinkRoute = 0 // NETLINK_ROUTE

// qdisc names the root queueing discipline. A device without one says so with
// the word the kernel uses.
func qdisc(h *netlink.Handle, link netlink.Link) string {
	list, err := h.QdiscList(link)
	if err != nil {
		return ""
	}
	for _, q := range list {
		if q.Attrs().Parent == netlink.HANDLE_ROOT {
			return q.Type()
		}
	}
	return "noqueue"
}

func pick(all map[string]bool) map[string]bool {
	some := map[string]bool{}
	for _, name := range features {
		if on, ok := all[name]; ok {
			some[name] = on
		}
	}
	return some
}

// Features reads the offloads of a device in the calling thread's namespace,
// by the names that `ethtool -k` uses for single bits.
func Features(device string) (map[string]bool, error) {
	tool, err := ethtool.NewEthtool()
	if err != nil {
		return nil, fmt.Errorf("open ethtool: %w", err)
	}
	defer tool.Close()
	all, err := AskEthtool(tool.Features, device)
	if err != nil {
		return nil, fmt.Errorf("read features of %s: %w", device, err)
	}
	return all, nil
}
