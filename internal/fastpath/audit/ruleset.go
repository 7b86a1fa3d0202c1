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

// RulesetAudit is what somebody must know of the packet filter of a namespace who lets
// the packets of an established flow pass it by, once it has judged some of them.
type RulesetAudit struct {
	// PerPacket names a rule that may judge the next packet of an established flow
	// otherwise, or does more to it than to let it pass; empty: there is none.
	PerPacket string
	// PerPacketUnreplied says why packets must not pass the filter by of a connection that has
	// seen no answer yet: a rule may judge them otherwise once there is one, or judges
	// each of them by itself; empty: they may, if there is nothing Fickle.
	PerPacketUnreplied string
	// MarkChain names the chain of a rule that gives packets marks, which those that are
	// carried do not have; empty: there is none.
	MarkChain string
	// DeviceChains are the sides on which chains stand at devices themselves, by their
	// names; one that ends in * stands for all names that begin so.
	DeviceChains map[string]Direction
}

// DirectionsAt gives the sides on which chains stand at a device.
func (r RulesetAudit) DirectionsAt(device string) (sides Direction) {
	for name, s := range r.DeviceChains {
		prefix, all := strings.CutSuffix(name, "*")
		if name == device || all && strings.HasPrefix(device, prefix) {
			sides |= s
		}
	}
	return sides
}

// Ruleset reads the rules that IPv4 packets of TCP and UDP meet which are
// forwarded in the calling thread's namespace; with a port, those too that tunnels
// with that UDP port meet. Chains that translate addresses see the first packet of
// a connection only, and are not looked at. It takes privileges over the namespace.
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
	// Where something is not tracked, it is in no state: then the rules are read
	// once more, as such packets meet them.
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

// auditUnreplied goes through chains as packets do that nobody has answered yet: to
// connection tracking each is the first of its connection, until one is.
func auditUnreplied(port uint16, begins []chainName, sets *setReader) (why string, err error) {
	r := chainWalker{port: port, unreplied: true, walked: map[chainName]bool{}, sets: sets}
	for _, c := range begins {
		if c.outer {
			continue // nobody answers those, and they are judged as such anyway
		}
		if _, err := r.walk(c); err != nil {
			return "", err
		}
	}
	return r.finding, nil
}

// chainDevices reads at which devices a chain stands.
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
				if binary.BigEndian.Uint32(h.Value) == netdevEgress {
					side = Egress
				}
			case hookDevices:
				list, err := nl.ParseRouteAttr(h.Value)
				if err != nil {
					return nil, 0, err
				}
				for _, d := range list {
					name := nl.BytesToString(d.Value)
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
	outer                bool // what meets it are packets of a tunnel, not of pods
}

// chainWalker walks through chains as the packets of established flows do.
type chainWalker struct {
	port      uint16
	stateless bool               // connections are not tracked, or some are not
	unreplied bool               // their packets are those of before the first answer
	untracked bool               // that was found
	finding   string             // what is fickle
	markChain string             // where a rule gives packets marks
	walked    map[chainName]bool // whether all packets end there
	sets      *setReader
}

// walk goes through a chain and all that it jumps to. ends: no packet leaves it.
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

// dumpChain dumps the rules of a chain; one that is gone has none.
func dumpChain(c chainName) ([][]byte, error) {
	text := func(number int, value string) *nl.RtAttr { return nl.NewRtAttr(number, nl.ZeroTerminated(value)) }
	return askFilter(unix.NFT_MSG_GETRULE, c.family, text(unix.NFTA_RULE_TABLE, c.table), text(unix.NFTA_RULE_CHAIN, c.chain))
}

// askFilter dumps what a message asks for, and asks again when something changed
// meanwhile.
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

// verdictOf reads a verdict, and the chain that it leads to.
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
