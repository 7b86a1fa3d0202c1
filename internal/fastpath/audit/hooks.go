package audit

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/mdlayher/netlink"
	"github.com/venturi-net/venturi/internal/fastpath/allowlist"
	"github.com/venturi-net/venturi/internal/nft"
	"github.com/venturi-net/venturi/internal/nlmsg"
	"golang.org/x/sys/unix"
)

// HookPoller tells which functions of the kernel packets meet at netfilter's hooks, in the
// namespace that it was opened in. It keeps its socket: to close one of netfilter's
// waits for whoever is changing rules.
type HookPoller struct {
	conn        *netlink.Conn
	unsupported bool
	polls       int
	unknown     map[hookPoint]string // what is foreign there, as of the last look; empty: nothing
}

// harmlessFunctions are functions that carry out what is judged elsewhere, or that treat all
// packets alike of a flow that is established and not translated.
var harmlessFunctions = allowlist.NameSet(
	// Rules, see [AuditRuleset].
	"nft_do_chain_ipv4", "nft_do_chain_inet", "nft_do_chain_bridge", "nf_route_table_hook4", "nf_route_table_inet",
	// Tracking and translation of connections, and IPVS, which translates its own.
	"ipv4_conntrack_defrag", "ipv4_conntrack_in", "ipv4_conntrack_local", "nf_confirm",
	"nf_ct_bridge_pre", "nf_ct_bridge_in", "nf_ct_bridge_post",
	"nf_nat_ipv4_pre_routing", "nf_nat_ipv4_local_in", "nf_nat_ipv4_local_fn", "nf_nat_ipv4_out",
	"ip_vs_in_hook", "ip_vs_out_hook", "ip_vs_forward_icmp",
	// Packets of bridges meet the rules for IPv4, those of ipvlan go by their addresses.
	"br_nf_pre_routing", "br_nf_local_in", "br_nf_post_routing", "ip_sabotage_in", "ipvlan_nf_input",
	// Labels that devices and connections have.
	"selinux_ip_forward", "selinux_ip_output", "selinux_ip_postroute", "smack_ip_output", "apparmor_ip_postroute",
	// Where one has just gone.
	"accept_all",
)

// hookPoint is a hook of a family. Its number is that of its name in [filterHooks].
type hookPoint struct {
	family  byte
	number  uint32
	tunnels bool // it concerns tunnels' packets alone
}

var hookPoints = []hookPoint{
	{unix.NFPROTO_IPV4, 0, false}, {unix.NFPROTO_IPV4, 1, true}, {unix.NFPROTO_IPV4, 2, false}, {unix.NFPROTO_IPV4, 3, true}, {unix.NFPROTO_IPV4, 4, false},
	// Pods' packets go by bridges to the machine, and from it.
	{unix.NFPROTO_BRIDGE, 0, false}, {unix.NFPROTO_BRIDGE, 1, false}, {unix.NFPROTO_BRIDGE, 3, false}, {unix.NFPROTO_BRIDGE, 4, false},
}

const (
	getHook      = unix.NFNL_SUBSYS_HOOK << 8 // NFNL_MSG_HOOK_GET
	hookNumber   = 1                          // NFNLA_HOOK_HOOKNUM
	hookFunction = 4                          // NFNLA_HOOK_FUNCTION_NAME
	hookModule   = 5                          // NFNLA_HOOK_MODULE_NAME
)

// hooksPerPoll is at how many hooks it is looked at once, in turns: to list one takes
// some 30 us, and 4 for each function there, whose name the kernel searches for. So 20
// looks a second take 0.3 % of a core.
const hooksPerPoll = 3

// OpenHookPoller opens that of the calling thread's namespace.
func OpenHookPoller() (*HookPoller, error) {
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	return &HookPoller{conn: conn, unknown: map[hookPoint]string{}}, nil
}

// Close ends it.
func (h *HookPoller) Close() error { return h.conn.Close() }

// UnknownFunction names a function that packets of TCP and UDP meet which are forwarded, and of
// which it is not known that it is harmless; empty: there is none. With tunnels, those
// count too that tunnels' packets meet, and with bridges those at bridges. At each hook
// it is looked by the third call. This kernel may not tell. It takes privileges over the
// namespace.
func (h *HookPoller) UnknownFunction(tunnels, bridges bool) (function string, told bool, err error) {
	var points []hookPoint
	for _, p := range hookPoints {
		if (tunnels || !p.tunnels) && (bridges || p.family != unix.NFPROTO_BRIDGE) {
			points = append(points, p)
		}
	}
	h.polls++
	turns := (len(points) + hooksPerPoll - 1) / hooksPerPoll
	for i, p := range points {
		if _, known := h.unknown[p]; (!known || i%turns == h.polls%turns) && !h.unsupported {
			if h.unknown[p], err = h.unknownAt(p); err != nil {
				return "", true, err
			}
		}
		function = cmp.Or(function, h.unknown[p])
	}
	return function, !h.unsupported, nil
}

func (h *HookPoller) unknownAt(p hookPoint) (function string, err error) {
	number, err := netlink.MarshalAttributes([]netlink.Attribute{{Type: hookNumber, Data: binary.BigEndian.AppendUint32(nil, p.number)}})
	if err != nil {
		return "", err
	}
	answers, err := h.conn.Execute(netlink.Message{
		Header: netlink.Header{Type: getHook, Flags: netlink.Request | netlink.Dump},
		Data:   append([]byte{p.family, unix.NFNETLINK_V0, 0, 0}, number...),
	})
	if errors.Is(err, unix.EINVAL) {
		h.unsupported = true // nor is it asked again: the kernel looks for a module each time
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("list netfilter's hooks: %w", err)
	}
	for _, m := range answers {
		attrs, family, err := nft.FilterAttrs(m.Data)
		if err != nil {
			return "", fmt.Errorf("parse a hook of netfilter: %w", err)
		}
		data := nlmsg.ByNumber(attrs)
		name, _, _ := strings.Cut(data.Text(hookFunction), ".") // compilers append to it
		if harmlessFunctions[name] {
			continue
		}
		if name == "" {
			name = "a function without a name"
		}
		if module := data.Text(hookModule); module != "" {
			name += " [" + module + "]"
		}
		return fmt.Sprintf("%s at %s %s", name, family, nft.HookNames[p.number]), nil
	}
	return "", nil
}
