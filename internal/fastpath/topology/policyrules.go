package topology

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/venturi-net/venturi/internal/nlmsg"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// flowInvariantSelectors are the selectors of policy rules that are equal for all packets of an
// established flow, and attributes that describe the rule itself. Marks are among them because
// package audit examines the rules that set marks.
var flowInvariantSelectors = map[uint16]bool{
	unix.FRA_DST: true, unix.FRA_SRC: true, unix.FRA_IIFNAME: true, unix.FRA_OIFNAME: true, unix.FRA_L3MDEV: true,
	unix.FRA_FWMARK: true, unix.FRA_FWMASK: true, unix.FRA_UID_RANGE: true,
	unix.FRA_IP_PROTO: true, unix.FRA_SPORT_RANGE: true, unix.FRA_DPORT_RANGE: true, fraPortMask: true, fraPortMask + 1: true,
	unix.FRA_PRIORITY: true, unix.FRA_TABLE: true, unix.FRA_GOTO: true, unix.FRA_FLOW: true, unix.FRA_PROTOCOL: true, unix.FRA_PAD: true,
	unix.FRA_SUPPRESS_IFGROUP: true, unix.FRA_SUPPRESS_PREFIXLEN: true,
}

const (
	fraDSCP     = 25 // FRA_DSCP
	fraPortMask = 28 // FRA_SPORT_MASK; FRA_DPORT_MASK follows

	// Size of struct fib_rule_hdr, and offsets in it.
	sizeofRule = 12
	ruleTOS    = 3
	ruleAction = 7
	ruleFlags  = 8

	provenRuleFlags = unix.FIB_RULE_PERMANENT | unix.FIB_RULE_INVERT | unix.FIB_RULE_UNRESOLVED |
		unix.FIB_RULE_IIF_DETACHED | unix.FIB_RULE_OIF_DETACHED | unix.FIB_RULE_FIND_SADDR
)

// provenRuleActions are the actions of policy rules that treat all packets of a flow alike.
var provenRuleActions = map[byte]string{
	unix.FR_ACT_TO_TBL: "table", unix.FR_ACT_GOTO: "goto", unix.FR_ACT_NOP: "nop",
	unix.FR_ACT_BLACKHOLE: "blackhole", unix.FR_ACT_UNREACHABLE: "unreachable", unix.FR_ACT_PROHIBIT: "prohibit",
}

// auditPolicyRules audits all policy rules of the namespace, because a packet may meet any of them.
func (r *reader) auditPolicyRules() error {
	rules, err := nlmsg.Dump(func() ([][]byte, error) {
		req := nl.NewNetlinkRequest(unix.RTM_GETRULE, unix.NLM_F_DUMP)
		req.AddData(&nl.RtMsg{RtMsg: unix.RtMsg{Family: r.family.Number()}})
		return req.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWRULE)
	})
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EAFNOSUPPORT) {
		return nil // this kernel has no policy rules
	}
	if err != nil {
		return fmt.Errorf("list policy rules: %w", err)
	}
	for _, message := range rules {
		by, number, err := perPacketSelector(message)
		if err != nil {
			return fmt.Errorf("parse policy rule: %w", err)
		}
		if by != "" {
			r.perPacket = fmt.Sprintf("policy rule %d depends on %s", number, by)
		}
		if goesBySourcePort(message) {
			r.bySourcePort = fmt.Sprintf("policy rule %d depends on source ports, which differ between packets of the tunnel", number)
		}
	}
	return nil
}

// goesBySourcePort tells whether a policy rule selects UDP by its source port, which a tunnel gives each flow
// in it.
func goesBySourcePort(message []byte) bool {
	ports, protocol := false, byte(unix.IPPROTO_UDP)
	for kind, value := range nlmsg.EachAttr(message[sizeofRule:]) {
		switch {
		case kind == unix.FRA_SPORT_RANGE:
			ports = true
		case kind == unix.FRA_IP_PROTO && len(value) > 0:
			protocol = value[0]
		}
	}
	return ports && protocol == unix.IPPROTO_UDP
}

// perPacketSelector names a selector of a policy rule that may differ between packets of one flow;
// "" means none.
func perPacketSelector(message []byte) (by string, number uint32, err error) {
	if len(message) < sizeofRule {
		return "", 0, fmt.Errorf("message of %d bytes is too short", len(message))
	}
	attrs, err := nl.ParseRouteAttr(message[sizeofRule:])
	if err != nil {
		return "", 0, err
	}
	if action := message[ruleAction]; provenRuleActions[action] == "" {
		by = fmt.Sprintf("action %d", action)
	}
	if unknown := binary.NativeEndian.Uint32(message[ruleFlags:]) &^ provenRuleFlags; unknown != 0 {
		by = fmt.Sprintf("flags %#x", unknown)
	}
	if message[ruleTOS] != 0 {
		by = "the TOS"
	}
	for _, a := range attrs {
		switch kind := nlmsg.Number(a.Attr.Type); {
		case kind == unix.FRA_PRIORITY && len(a.Value) >= 4:
			number = binary.NativeEndian.Uint32(a.Value)
		case kind == fraDSCP:
			by = "the DSCP"
		case !flowInvariantSelectors[kind] && by == "":
			by = fmt.Sprintf("attribute %d", kind)
		}
	}
	return by, number, nil
}
