package nft

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/nlmsg"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// ChainSummary is a chain of nftables, or of iptables where that writes such.
type ChainSummary struct {
	Family   string // "ip", "ip6", "inet", "bridge", "arp", "netdev"
	Table    string
	Name     string
	Hook     string // "prerouting", "input", "forward", "output", "postrouting"; empty: others jump to it
	Type     string // of one with a hook: "filter", "nat", "route"
	Priority int
	Rules    []RuleSummary
}

// RuleSummary is what of a rule decides whether packets go on behind it.
type RuleSummary struct {
	MatchesAll  bool   // it looks at nothing: every packet takes its verdict
	Established bool   // it is for packets of known connections
	NewOnly     bool   // it is for the first packet of a connection only
	Verdict     string // "accept", "drop", "return", "jump", "goto", "offload", "notrack", "other"; empty: the next rule
	TargetChain string // chain of a jump or goto
	Ports       []int  // UDP or TCP destination ports that it compares with
}

// SummarizeRuleset dumps the chains of the calling thread's namespace with their rules, in
// the order of the kernel. It takes privileges over the namespace.
func SummarizeRuleset() ([]ChainSummary, error) {
	chains, err := DumpFilter(unix.NFT_MSG_GETCHAIN)
	if err != nil {
		return nil, fmt.Errorf("dump nftables chains: %w", err)
	}
	var list []ChainSummary
	at := map[[3]string]int{}
	for _, m := range chains {
		c, err := ReadChain(m)
		if err != nil {
			return nil, fmt.Errorf("parse nftables chain: %w", err)
		}
		at[[3]string{c.Family, c.Table, c.Name}] = len(list)
		list = append(list, c)
	}
	if len(list) == 0 {
		return nil, nil
	}
	rules, err := DumpFilter(unix.NFT_MSG_GETRULE)
	if err != nil {
		return nil, fmt.Errorf("dump nftables rules: %w", err)
	}
	for _, m := range rules {
		chain, rule, err := readRule(m)
		if err != nil {
			return nil, fmt.Errorf("parse nftables rule: %w", err)
		}
		if i, known := at[chain]; known {
			list[i].Rules = append(list[i].Rules, rule)
		}
	}
	return list, nil
}

// DumpFilter lists what a message asks nftables for. It asks again when something changed meanwhile.
func DumpFilter(message int) ([][]byte, error) {
	return nlmsg.Dump(func() ([][]byte, error) {
		req := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_NFTABLES<<8|message, unix.NLM_F_DUMP)
		req.AddData(&nl.Nfgenmsg{NfgenFamily: unix.AF_UNSPEC, Version: unix.NFNETLINK_V0})
		return req.Execute(unix.NETLINK_NETFILTER, 0)
	})
}

var FamilyNames = map[byte]string{
	unix.NFPROTO_IPV4: "ip", unix.NFPROTO_IPV6: "ip6", unix.NFPROTO_INET: "inet",
	unix.NFPROTO_BRIDGE: "bridge", unix.NFPROTO_ARP: "arp", unix.NFPROTO_NETDEV: "netdev",
}

var HookNames = []string{"prerouting", "input", "forward", "output", "postrouting"}

func ReadChain(message []byte) (c ChainSummary, err error) {
	attrs, family, err := FilterAttrs(message)
	c.Family = family
	for _, a := range attrs {
		switch nlmsg.Number(a.Attr.Type) {
		case unix.NFTA_CHAIN_TABLE:
			c.Table = unix.ByteSliceToString(a.Value)
		case unix.NFTA_CHAIN_NAME:
			c.Name = unix.ByteSliceToString(a.Value)
		case unix.NFTA_CHAIN_TYPE:
			c.Type = unix.ByteSliceToString(a.Value)
		case unix.NFTA_CHAIN_HOOK:
			hook, err := nl.ParseRouteAttr(a.Value)
			if err != nil {
				return c, err
			}
			for _, h := range hook {
				n := binary.BigEndian.Uint32(append(slices.Clone(h.Value), 0, 0, 0, 0))
				switch nlmsg.Number(h.Attr.Type) {
				case unix.NFTA_HOOK_HOOKNUM:
					c.Hook = "other"
					if int(n) < len(HookNames) && family != "netdev" && family != "arp" {
						c.Hook = HookNames[n]
					}
				case unix.NFTA_HOOK_PRIORITY:
					c.Priority = int(int32(n))
				}
			}
		}
	}
	return c, err
}

// FilterAttrs reads a message, which begins with a struct nfgenmsg.
func FilterAttrs(message []byte) (attrs nlmsg.Attrs, family string, err error) {
	if len(message) < nl.SizeofNfgenmsg {
		return nil, "", fmt.Errorf("message of %d bytes is too short", len(message))
	}
	attrs, err = nl.ParseRouteAttr(message[nl.SizeofNfgenmsg:])
	return attrs, FamilyNames[message[0]], err
}

func readRule(message []byte) (chain [3]string, rule RuleSummary, err error) {
	attrs, family, err := FilterAttrs(message)
	chain[0] = family
	for _, a := range attrs {
		switch nlmsg.Number(a.Attr.Type) {
		case unix.NFTA_RULE_TABLE:
			chain[1] = unix.ByteSliceToString(a.Value)
		case unix.NFTA_RULE_CHAIN:
			chain[2] = unix.ByteSliceToString(a.Value)
		case unix.NFTA_RULE_EXPRESSIONS:
			elems, err := nl.ParseRouteAttr(a.Value)
			if err != nil {
				return chain, rule, err
			}
			r := ruleReader{RuleSummary: RuleSummary{MatchesAll: true}}
			for _, e := range elems {
				if err := r.expression(e.Value); err != nil {
					return chain, rule, err
				}
			}
			rule = r.RuleSummary
		}
	}
	if attrs != nil && rule.Verdict == "" && !hasExpressions(attrs) {
		rule.MatchesAll = true
	}
	return chain, rule, err
}

func hasExpressions(attrs nlmsg.Attrs) bool {
	return slices.ContainsFunc(attrs, func(a nlmsg.Attr) bool { return nlmsg.Number(a.Attr.Type) == unix.NFTA_RULE_EXPRESSIONS })
}

// ruleReader goes through the expressions of a rule, which work like the
// instructions of a small machine: what was loaded last is what is compared next.
type ruleReader struct {
	RuleSummary
	state, port bool // a connection's state, a port is what was loaded last
	mask        uint32
}

// Bits of a connection's state, for nftables and iptables alike.
const (
	StateEstablished = 1 << 1
	StateNew         = 1 << 3
)

func (r *ruleReader) expression(elem []byte) error {
	name, data, err := ExpressionData(elem)
	if err != nil {
		return err
	}
	switch name {
	case "counter", "log", "limit", "quota", "last", "meta_set", "connlimit":
		return nil
	case "immediate":
		return r.verdict(data)
	case "notrack":
		r.Verdict = "notrack"
		return nil
	case "flow_offload":
		r.Verdict = "offload"
		return nil
	case "nat", "masq", "redir", "reject", "queue", "tproxy", "synproxy":
		r.Verdict = "other"
		return nil
	case "target":
		r.target(data)
		return nil
	}
	switch name {
	case "ct":
		if data.Has(unix.NFTA_CT_SREG) || data.BigEndian32(unix.NFTA_CT_KEY) != unix.NFT_CT_STATE {
			break
		}
		r.state, r.port, r.mask = true, false, 0
	case "payload":
		r.state, r.port = false, data.BigEndian32(unix.NFTA_PAYLOAD_BASE) == unix.NFT_PAYLOAD_TRANSPORT_HEADER && data.BigEndian32(unix.NFTA_PAYLOAD_OFFSET) == 2
	case "bitwise":
		if mask := data.DataValue(unix.NFTA_BITWISE_MASK); r.state && len(mask) >= 4 {
			r.mask = binary.NativeEndian.Uint32(mask)
		}
	case "lookup":
		if r.state && data.Has(unix.NFTA_LOOKUP_DREG) {
			r.Established, r.Verdict = true, "other" // ct state vmap { ... }
		}
	case "cmp":
		r.compare(data)
	case "match":
		if data.Text(1) == "comment" { // NFTA_MATCH_NAME
			return nil
		}
		r.match(data)
	case "meta":
		if data.Has(unix.NFTA_META_SREG) {
			return nil
		}
	}
	r.MatchesAll = false
	return nil
}

func (r *ruleReader) compare(data nlmsg.Map) {
	value := data.DataValue(unix.NFTA_CMP_DATA)
	switch {
	case r.state && len(value) >= 4:
		equal := data.BigEndian32(unix.NFTA_CMP_OP) == unix.NFT_CMP_EQ
		switch v := binary.NativeEndian.Uint32(value); {
		case equal && v != 0:
			r.states(v)
		case !equal && v == 0:
			r.states(r.mask)
		case equal: // in none of the states
			r.NewOnly = r.NewOnly || r.mask&StateEstablished != 0
		}
	case r.port && len(value) >= 2:
		r.Ports = append(r.Ports, int(binary.BigEndian.Uint16(value)))
	}
	r.state, r.port = false, false
}

func (r *ruleReader) states(mask uint32) {
	r.Established = r.Established || mask&StateEstablished != 0
	r.NewOnly = r.NewOnly || mask&StateNew != 0 && mask&StateEstablished == 0
}

// Where of the structures of iptables' extensions what is wanted stands.
const (
	ConntrackFlags  = 146 // struct xt_conntrack_mtinfo1 and later
	ConntrackInvert = 148
	ConntrackState  = 150
	portsFrom       = 4 // struct xt_udp, xt_tcp: range of destination ports
)

func (r *ruleReader) match(data nlmsg.Map) {
	info := data.Bytes(3) // NFTA_MATCH_INFO
	switch data.Text(1) { // NFTA_MATCH_NAME
	case "conntrack":
		if len(info) < ConntrackState+2 || info[ConntrackFlags]&1 == 0 || info[ConntrackInvert]&1 != 0 {
			return
		}
		mask := uint32(info[ConntrackState])
		r.states(mask)
	case "state":
		if len(info) >= 4 {
			r.states(binary.NativeEndian.Uint32(info))
		}
	case "udp", "tcp":
		if len(info) < portsFrom+4 {
			return
		}
		from, to := binary.NativeEndian.Uint16(info[portsFrom:]), binary.NativeEndian.Uint16(info[portsFrom+2:])
		for p := int(from); p <= int(to) && to-from < 64; p++ {
			r.Ports = append(r.Ports, p)
		}
	}
}

func (r *ruleReader) target(data nlmsg.Map) {
	switch name := data.Text(1); name { // NFTA_TARGET_NAME
	case "NOTRACK":
		r.Verdict = "notrack"
	case "CT":
		// struct xt_ct_target_info begins with its flags, of which the first is NOTRACK.
		if info := data.Bytes(3); len(info) > 0 && info[0]&1 != 0 {
			r.Verdict = "notrack"
		}
	case "MARK", "CONNMARK", "LOG", "NFLOG", "TRACE", "CHECKSUM", "TCPMSS", "DSCP", "TOS", "CLASSIFY", "SET", "TTL", "HL":
	default:
		r.Verdict = "other"
	}
}

var Verdicts = map[int32]string{0: "drop", 1: "accept", 3: "other", -1: "", -3: "jump", -4: "goto", -5: "return"}

// verdict reads what an "immediate" puts into the register of the verdict.
func (r *ruleReader) verdict(data nlmsg.Map) error {
	value, err := nl.ParseRouteAttr(data[unix.NFTA_IMMEDIATE_DATA])
	if err != nil {
		return err
	}
	for _, v := range value {
		if nlmsg.Number(v.Attr.Type) != unix.NFTA_DATA_VERDICT {
			continue
		}
		parts, err := nl.ParseRouteAttr(v.Value)
		if err != nil {
			return err
		}
		for _, p := range parts {
			switch nlmsg.Number(p.Attr.Type) {
			case unix.NFTA_VERDICT_CODE:
				r.Verdict = Verdicts[int32(binary.BigEndian.Uint32(append(slices.Clone(p.Value), 0, 0, 0, 0)))]
			case unix.NFTA_VERDICT_CHAIN:
				r.TargetChain = strings.TrimRight(string(p.Value), "\x00")
			}
		}
	}
	return nil
}
