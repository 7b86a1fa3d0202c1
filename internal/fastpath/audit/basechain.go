package audit

import (
	"cmp"
	"slices"

	"github.com/venturi-net/venturi/internal/nft"
	"github.com/venturi-net/venturi/internal/nlmsg"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// baseChain is a chain at a hook.
type baseChain struct {
	chainName
	hook, priority int
	drops          bool // its policy is to drop
	translates     bool // addresses: only the first packet of a connection meets it
}

// Priorities of connection tracking, and of translations of destinations: NF_IP_PRI_CONNTRACK, NF_IP_PRI_NAT_DST.
const (
	beforeTracking    = -200
	beforeTranslation = -100
)

// baseChains are a chain at a hook as packets of pods meet it, and as tunnel packets do.
func baseChains(c nft.ChainSummary, drops, tunnels bool) (all []baseChain) {
	own, bridge := c.Hook == "input" || c.Hook == "output", c.Family == "bridge"
	at := chainName{family: c.Family, table: c.Table, chain: c.Name, early: c.Hook == "prerouting" && c.Priority <= beforeTracking}
	base := baseChain{at, slices.Index(nft.HookNames, c.Hook), c.Priority, drops, c.Type == "nat"}
	if !own || bridge { // pods' packets enter the host by the input hook of their bridge, and leave it by the output hook
		all = append(all, base)
	}
	if c.Hook != "forward" && !bridge && tunnels {
		base.outer, base.early = true, base.early || c.Hook == "output" && c.Priority <= beforeTracking
		base.untranslated = (c.Hook == "prerouting" || c.Hook == "output") && c.Priority <= beforeTranslation
		all = append(all, base)
	}
	return all
}

// sortChains brings them in the order in which packets meet them.
func sortChains(all []baseChain) {
	slices.SortStableFunc(all, func(a, b baseChain) int {
		return cmp.Or(cmp.Compare(a.hook, b.hook), cmp.Compare(a.priority, b.priority))
	})
}

// readBase returns the devices that a chain is attached to, and whether its policy is to drop.
func readBase(message []byte) (names []string, side Direction, drops bool, err error) {
	attrs, _, err := nft.FilterAttrs(message)
	if err != nil {
		return nil, 0, false, err
	}
	drops = nlmsg.ByNumber(attrs).BigEndian32(unix.NFTA_CHAIN_POLICY) == policyDrop
	for _, a := range attrs {
		if nlmsg.Number(a.Attr.Type) != unix.NFTA_CHAIN_HOOK {
			continue
		}
		hook, err := nl.ParseRouteAttr(a.Value)
		if err != nil {
			return nil, 0, false, err
		}
		for _, h := range hook {
			switch nlmsg.Number(h.Attr.Type) {
			case unix.NFTA_HOOK_HOOKNUM:
				side = Ingress // NF_NETDEV_INGRESS, or NF_INET_INGRESS of an inet table
				if nlmsg.ByNumber(nlmsg.Attrs{h}).BigEndian32(unix.NFTA_HOOK_HOOKNUM) == unix.NF_NETDEV_EGRESS {
					side = Egress
				}
			case hookDevices:
				list, err := nl.ParseRouteAttr(h.Value)
				if err != nil {
					return nil, 0, false, err
				}
				for _, d := range list {
					name := unix.ByteSliceToString(d.Value)
					if nlmsg.Number(d.Attr.Type) == devicePrefix {
						name += "*"
					}
					names = append(names, name)
				}
			}
		}
	}
	return names, side, drops, nil
}

// hasRules reports whether a message about a chain says that rules are in it.
func hasRules(message []byte) bool {
	attrs, _, err := nft.FilterAttrs(message)
	return err != nil || nlmsg.ByNumber(attrs).BigEndian32(unix.NFTA_CHAIN_USE) != 0
}

const (
	hookDevices  = 4 // NFTA_HOOK_DEVS
	devicePrefix = 2 // NFTA_DEVICE_PREFIX
	policyDrop   = 0 // NF_DROP
)
