package audit

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/venturi-net/venturi/internal/fastpath/allowlist"
	"github.com/venturi-net/venturi/internal/nft"
	"github.com/venturi-net/venturi/internal/nlmsg"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// HookPoller lists the kernel functions at netfilter's hooks, in the namespace in which it was
// opened. It keeps its socket open, because closing a netfilter socket waits for any rule change in
// progress.
type HookPoller struct {
	querier     *nlmsg.Querier
	points      []hookPoint
	unsupported bool
	polls       int
	unknown     map[hookPoint]string // foreign functions, as of the last poll; empty means none
}

// harmlessFunctions apply what is audited elsewhere, or treat all packets alike of a flow that is
// established and that nothing but conntrack translates: the programs carry no other.
var harmlessFunctions = allowlist.NameSet(
	// Rules, see [Ruleset].
	"nft_do_chain_ipv4", "nft_do_chain_ipv6", "nf_route_table_hook6", "nft_do_chain_inet", "nft_do_chain_bridge", "nf_route_table_hook4", "nf_route_table_inet",
	// Connection tracking and translation, and IPVS: the programs learn from no packet that it has sent on.
	"ipv4_conntrack_defrag", "ipv4_conntrack_in", "ipv4_conntrack_local", "nf_confirm",
	"ipv6_defrag", "ipv6_conntrack_in", "ipv6_conntrack_local", "ipv6_confirm",
	"nf_ct_bridge_pre", "nf_ct_bridge_in", "nf_ct_bridge_post",
	"nf_nat_ipv4_pre_routing", "nf_nat_ipv4_local_in", "nf_nat_ipv4_local_fn", "nf_nat_ipv4_out",
	"nf_nat_ipv6_in", "nf_nat_ipv6_fn", "nf_nat_ipv6_local_in", "nf_nat_ipv6_local_fn", "nf_nat_ipv6_out",
	"ip_vs_in_hook", "ip_vs_out_hook", "ip_vs_forward_icmp",
	// Bridged packets meet the rules for IP; packets of ipvlan are demultiplexed by address.
	"br_nf_pre_routing", "br_nf_local_in", "br_nf_forward", "br_nf_forward_ip", "br_nf_forward_arp", "br_nf_post_routing", "ip_sabotage_in", "ipvlan_nf_input",
	// Security labels of devices and connections.
	"selinux_ip_forward", "selinux_ip_output", "selinux_ip_postroute", "smack_ip_output", "apparmor_ip_postroute",
	// A function that was just removed.
	"accept_all",
)

// hookPoint is a hook of a family. Its number indexes [nft.HookNames].
type hookPoint struct {
	family  byte
	number  uint32
	tunnels bool // concerns tunnel packets only
}

// hookPoints are those that packets of a family meet.
func hookPoints(of Family) []hookPoint {
	n := of.Number()
	return []hookPoint{
		{n, unix.NF_INET_PRE_ROUTING, false}, {n, unix.NF_INET_LOCAL_IN, true}, {n, unix.NF_INET_FORWARD, false},
		{n, unix.NF_INET_LOCAL_OUT, true}, {n, unix.NF_INET_POST_ROUTING, false},
		// Packets of pods pass bridges on their way to and from the host, and to each other.
		{unix.NFPROTO_BRIDGE, unix.NF_INET_PRE_ROUTING, false}, {unix.NFPROTO_BRIDGE, unix.NF_INET_LOCAL_IN, false},
		{unix.NFPROTO_BRIDGE, unix.NF_INET_FORWARD, false}, {unix.NFPROTO_BRIDGE, unix.NF_INET_LOCAL_OUT, false},
		{unix.NFPROTO_BRIDGE, unix.NF_INET_POST_ROUTING, false},
	}
}

const (
	getHook      = unix.NFNL_SUBSYS_HOOK << 8 // NFNL_MSG_HOOK_GET
	hookNumber   = 1                          // NFNLA_HOOK_HOOKNUM
	hookFunction = 4                          // NFNLA_HOOK_FUNCTION_NAME
	hookModule   = 5                          // NFNLA_HOOK_MODULE_NAME
)

// hooksPerPoll is how many hooks one poll lists, in turn: two polls list all of them. To list a hook takes
// about 30 us, plus 4 us for each function there, whose name the kernel looks up. So 20 polls a second
// take 0.4 % of a core. There are so many only while packets are carried.
const hooksPerPoll = 5

// OpenHookPoller opens a poller of the calling thread's namespace, of what packets of a family meet.
func OpenHookPoller(of Family) (*HookPoller, error) {
	querier, err := nlmsg.OpenQuerier(unix.NETLINK_NETFILTER)
	if err != nil {
		return nil, err
	}
	return &HookPoller{querier: querier, points: hookPoints(of), unknown: map[hookPoint]string{}}, nil
}

// Close closes the poller's socket.
func (h *HookPoller) Close() error { return h.querier.Close() }

// UnknownFunction names a function that forwarded TCP and UDP packets meet and that is not known to
// be harmless; empty means none. With tunnels, it includes hooks of tunnel packets; with bridges,
// hooks of bridges. It takes up to ten calls to poll every hook, or one if the caller has all of
// them polled. A kernel without this interface returns none. It takes privileges over the
// namespace.
func (h *HookPoller) UnknownFunction(tunnels, bridges, all bool) (function string, told bool, err error) {
	var points []hookPoint
	for _, p := range h.points {
		if (tunnels || !p.tunnels) && (bridges || p.family != unix.NFPROTO_BRIDGE) {
			points = append(points, p)
		}
	}
	h.polls++
	turns := (len(points) + hooksPerPoll - 1) / hooksPerPoll
	for i, p := range points {
		if _, known := h.unknown[p]; (all || !known || i%turns == h.polls%turns) && !h.unsupported {
			if h.unknown[p], err = h.unknownAt(p); err != nil {
				return "", true, err
			}
		}
		function = cmp.Or(function, h.unknown[p])
	}
	return function, !h.unsupported, nil
}

func (h *HookPoller) unknownAt(p hookPoint) (function string, err error) {
	request := append([]byte{p.family, unix.NFNETLINK_V0, 0, 0}, nl.NewRtAttr(hookNumber, nl.BEUint32Attr(p.number)).Serialize()...)
	found, err := nlmsg.Dump(func() (found []string, err error) {
		var unparsed error
		err = h.querier.Dump(getHook, request, func(body []byte) (more bool) {
			name, err := foreignFunction(body)
			unparsed = cmp.Or(unparsed, err)
			if name != "" {
				found = append(found, name)
			}
			return true
		})
		return found, cmp.Or(unparsed, err)
	})
	at := fmt.Sprintf("at %s %s", nft.FamilyNames[p.family], nft.HookNames[p.number])
	switch {
	case errors.Is(err, unix.EINVAL):
		h.unsupported = true // do not ask again: the kernel tries to load a module each time
		return "", nil
	case errors.Is(err, nlmsg.ErrInterrupted):
		return at + ", whose list changes while it is read", nil
	case err != nil:
		return "", fmt.Errorf("list netfilter's hooks: %w", err)
	case len(found) == 0:
		return "", nil
	}
	return found[0] + " " + at, nil
}

// foreignFunction names the function at a hook in a message; "": it is known to be harmless.
func foreignFunction(message []byte) (name string, err error) {
	attrs, _, err := nft.FilterAttrs(message)
	if err != nil {
		return "", fmt.Errorf("parse a hook of netfilter: %w", err)
	}
	data := nlmsg.ByNumber(attrs)
	name, _, _ = strings.Cut(data.Text(hookFunction), ".") // compilers append suffixes
	if harmlessFunctions[name] {
		return "", nil
	}
	name = cmp.Or(name, "a function without a name")
	if module := data.Text(hookModule); module != "" {
		name += " [" + module + "]"
	}
	return name, nil
}
