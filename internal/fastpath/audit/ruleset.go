package audit

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/nft"
	"github.com/venturi-net/venturi/internal/nlmsg"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// RulesetAudit says whether packets of an established flow may bypass the packet filter of a
// namespace once it has seen some of them.
type RulesetAudit struct {
	// PerPacket names a rule that may treat the next packet of an established flow differently, or
	// does more than accept it. Empty means none.
	PerPacket string
	// PerPacketUnreplied says why packets of a connection without a reply must not bypass the
	// filter: a rule may treat them differently after a reply, or treats each of them separately.
	// Empty means that they may, if PerPacket is empty as well.
	PerPacketUnreplied string
	// MarkChain names the chain of a rule that sets packet marks, which packets of the fast path do
	// not have. Empty means none.
	MarkChain string
	// DeviceChains are the directions in which netdev chains are attached, by device name. A name
	// that ends in * is a prefix.
	DeviceChains map[string]Direction
}

// DirectionsAt returns the directions in which chains are attached to a device.
func (r RulesetAudit) DirectionsAt(device string) (sides Direction) {
	for name, s := range r.DeviceChains {
		prefix, all := strings.CutSuffix(name, "*")
		if name == device || all && strings.HasPrefix(device, prefix) {
			sides |= s
		}
	}
	return sides
}

// Ruleset audits the rules that forwarded TCP and UDP packets over IPv4 meet in the calling
// thread's namespace. With a port, it includes the rules that packets of tunnels with that UDP port
// meet. It skips chains that translate addresses, because only the first packet of a connection
// meets them. It takes privileges over the namespace.
func Ruleset(port uint16) (RulesetAudit, error) {
	chains, err := nft.DumpFilter(unix.NFT_MSG_GETCHAIN)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) {
		return RulesetAudit{}, nil // this kernel has no nftables
	}
	if err != nil {
		return RulesetAudit{}, fmt.Errorf("dump nftables chains: %w", err)
	}
	is := RulesetAudit{DeviceChains: map[string]Direction{}}
	var begins []chainName
	for _, m := range chains {
		c, err := nft.ReadChain(m)
		if err != nil {
			return is, fmt.Errorf("parse nftables chain: %w", err)
		}
		if c.Hook == "" || c.Family == "ip6" || c.Family == "arp" {
			continue
		}
		devices, side, err := chainDevices(m)
		if err != nil {
			return is, fmt.Errorf("parse nftables chain: %w", err)
		}
		for _, d := range devices {
			is.DeviceChains[d] |= side
		}
		if len(devices) > 0 || c.Type == "nat" {
			continue
		}
		own, bridge := c.Hook == "input" || c.Hook == "output", c.Family == "bridge"
		if !own || bridge && port != 0 {
			begins = append(begins, chainName{c.Family, c.Table, c.Name, false})
		}
		if c.Hook != "forward" && !bridge && port != 0 {
			begins = append(begins, chainName{c.Family, c.Table, c.Name, true})
		}
	}
	r := chainWalker{port: port, sets: newSetReader()}
	// An untracked packet has no state. If some packets are untracked, audit the rules once more
	// for those.
	for range 2 {
		r.walked = map[chainName]bool{}
		for _, c := range begins {
			if _, err := r.walk(c); err != nil {
				return is, err
			}
		}
		if !r.untracked {
			break
		}
		r.stateless = true
	}
	is.PerPacket, is.MarkChain = r.finding, r.markChain
	is.PerPacketUnreplied, err = auditUnreplied(port, begins, r.sets)
	return is, err
}

// auditUnreplied walks the chains as packets of a connection without a reply do: to connection
// tracking, each is the first of its connection until one is answered.
func auditUnreplied(port uint16, begins []chainName, sets *setReader) (why string, err error) {
	r := chainWalker{port: port, unreplied: true, walked: map[chainName]bool{}, sets: sets}
	for _, c := range begins {
		if c.outer {
			continue // tunnel packets get no reply, and are audited as such anyway
		}
		if _, err := r.walk(c); err != nil {
			return "", err
		}
	}
	return r.finding, nil
}

// chainDevices returns the devices that a chain is attached to.
func chainDevices(message []byte) (names []string, side Direction, err error) {
	attrs, _, err := nft.FilterAttrs(message)
	if err != nil {
		return nil, 0, err
	}
	for _, a := range attrs {
		if nlmsg.Number(a.Attr.Type) != unix.NFTA_CHAIN_HOOK {
			continue
		}
		hook, err := nl.ParseRouteAttr(a.Value)
		if err != nil {
			return nil, 0, err
		}
		for _, h := range hook {
			switch nlmsg.Number(h.Attr.Type) {
			case unix.NFTA_HOOK_HOOKNUM:
				side = Ingress // NF_NETDEV_INGRESS, or NF_INET_INGRESS of an inet table
				if nlmsg.ByNumber(nlmsg.Attrs{h}).BigEndian32(unix.NFTA_HOOK_HOOKNUM) == netdevEgress {
					side = Egress
				}
			case hookDevices:
				list, err := nl.ParseRouteAttr(h.Value)
				if err != nil {
					return nil, 0, err
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
	return names, side, nil
}

const (
	netdevEgress = 1 // NF_NETDEV_EGRESS
	hookDevices  = 4 // NFTA_HOOK_DEVS
	devicePrefix = 2 // NFTA_DEVICE_PREFIX
)

type chainName struct {
	family, table, chain string
	outer                bool // tunnel packets meet it, not pods' packets
}

// chainWalker walks through chains as packets of established flows do.
type chainWalker struct {
	port      uint16
	stateless bool               // some or all connections are not tracked
	unreplied bool               // audit packets before the first reply
	untracked bool               // a notrack rule was found
	finding   string             // why packets are treated differently
	markChain string             // chain of a rule that sets marks
	walked    map[chainName]bool // whether all packets end in the chain
	sets      *setReader
}

// walk goes through a chain and every chain that it jumps to. ends means that no packet leaves the
// chain.
func (r *chainWalker) walk(c chainName) (ends bool, err error) {
	if ends, known := r.walked[c]; known {
		return ends, nil
	}
	r.walked[c] = false
	rules, err := dumpChain(c)
	if err != nil {
		return false, fmt.Errorf("dump nftables chain %s %s %s: %w", c.family, c.table, c.chain, err)
	}
	for _, message := range rules {
		rule, err := r.read(c, message)
		if err != nil {
			return false, fmt.Errorf("parse nftables rule of %s %s %s: %w", c.family, c.table, c.chain, err)
		}
		if rule.neverMatches {
			continue
		}
		r.untracked = r.untracked || rule.verdict == "notrack" && !rule.tunnelOnly
		if why := cmp.Or(rule.perPacket, rule.replyDependent); why != "" {
			r.finding = fmt.Sprintf("%s %s %s: %s", c.family, c.table, c.chain, why)
		}
		if rule.setsMark {
			r.markChain = fmt.Sprintf("%s %s %s", c.family, c.table, c.chain)
		}
		all := len(rule.targets) > 0
		for _, to := range rule.targets {
			ends, err := r.walk(chainName{c.family, c.table, to, c.outer})
			if err != nil {
				return false, err
			}
			all = all && ends
		}
		switch {
		case !rule.alwaysMatches:
		case rule.verdict == "accept" || rule.verdict == "drop" || all:
			r.walked[c] = true
			return true, nil
		case rule.verdict == "return" || rule.verdict == "goto":
			return false, nil
		}
	}
	return false, nil
}

// dumpChain dumps the rules of a chain. A chain that is gone has none.
func dumpChain(c chainName) ([][]byte, error) {
	text := func(number int, value string) *nl.RtAttr { return nl.NewRtAttr(number, nl.ZeroTerminated(value)) }
	return askFilter(unix.NFT_MSG_GETRULE, c.family, text(unix.NFTA_RULE_TABLE, c.table), text(unix.NFTA_RULE_CHAIN, c.chain))
}

// askFilter dumps what a message requests, and repeats the dump if the rules changed meanwhile.
func askFilter(message int, family string, attrs ...*nl.RtAttr) ([][]byte, error) {
	number := byte(unix.AF_UNSPEC)
	for n, name := range nft.FamilyNames {
		if name == family {
			number = n
		}
	}
	found, err := nlmsg.Dump(func() ([][]byte, error) {
		req := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_NFTABLES<<8|message, unix.NLM_F_DUMP)
		req.AddData(&nl.Nfgenmsg{NfgenFamily: number, Version: unix.NFNETLINK_V0})
		for _, a := range attrs {
			req.AddData(a)
		}
		return req.Execute(unix.NETLINK_NETFILTER, 0)
	})
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	return found, err
}

// verdictOf returns a verdict, and the chain that it jumps to.
func verdictOf(nested []byte) (verdict, to string, known bool) {
	parts, err := nl.ParseRouteAttr(nested)
	if err != nil {
		return "", "", false
	}
	data := nlmsg.ByNumber(parts)
	code := int32(binary.BigEndian.Uint32(append(slices.Clone(data[unix.NFTA_VERDICT_CODE]), 0, 0, 0, 0)))
	verdict, known = nft.Verdicts[code]
	return verdict, data.Text(unix.NFTA_VERDICT_CHAIN), known && verdict != "other" || code == verdictBreak
}

const verdictBreak = -2 // NFT_BREAK
