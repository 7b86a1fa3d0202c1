package audit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

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
	// HidesEvents names a rule that sets which events of connections the kernel announces: whoever follows
	// them may not hear that one has changed or ended. Empty means none.
	HidesEvents string
	// PerPacketUnreplied says why packets of a connection without a reply must not bypass the
	// filter: a rule may treat them differently after a reply, or treats each of them separately.
	// Empty means that they may, if PerPacket and HidesEvents are empty as well.
	PerPacketUnreplied string
	// Translates says that there are chains that translate addresses. Only the first packet of a connection
	// meets them, or of one that began before them, every packet until a reply.
	Translates bool
	// Tracks says that rules which packets of pods or tunnels meet may treat one that connection tracking calls
	// invalid in another way than the rest of its flow. TracksBridged says so of rules for bridges.
	Tracks, TracksBridged bool
	// Flowtable names a flowtable, which forwards packets past the rules. Empty means that there is none.
	Flowtable string
	// MarkChain names the chain of a rule that sets packet marks, which packets of the fast path do
	// not have. Empty means none.
	MarkChain string
	// LeavesMark: rules for pods' packets may leave one with a mark other than 0, or with a security mark,
	// which it has when it enters a tunnel.
	LeavesMark bool
	// ReadsConnMark says that rules depend on the marks of connections, which anyone may change
	// at any time by connection tracking's own interface.
	ReadsConnMark bool
	// IPSets are the ipsets that rules depend on. Packets do not change them, but the kernel does
	// not announce it if anybody else does.
	IPSets []string
	// DeviceChains are the directions in which netdev chains are attached, by device name. A name
	// that ends in * is a prefix.
	DeviceChains map[string]Direction
	// Strangers are what packets of tunnels are taken not to have.
	Strangers Strangers
	// Counters are the rules that somebody has made count or log, and IPTablesCounters those of
	// iptables that count because all of them do.
	Counters, IPTablesCounters RuleCounters
}

// DirectionsAt returns the directions in which chains are attached to a device.
func (a RulesetAudit) DirectionsAt(device string) (sides Direction) {
	for name, s := range a.DeviceChains {
		if matchesDevice(name, device) {
			sides |= s
		}
	}
	return sides
}

// Overlay is what is known of the tunnels in which the packets of pods travel.
type Overlay struct {
	Family   Family // of pods' packets
	Protocol int    // IP, of the outer packets; 0: there are none
	Port     uint16 // UDP; 0: the protocol has no ports
	Wire     string // device that tunnel packets come and go by, and no others of pods
	// ByDevice: the tunnel's own device adds and removes the outer headers of carried packets, too. So these
	// raise the counters of rules for its packets as all others do.
	ByDevice bool
}

// Ruleset audits the rules that forwarded TCP and UDP packets of the family meet in the calling
// thread's namespace. With a tunnel, it includes the rules that the tunnel's packets meet. It skips
// chains that translate addresses: see [RulesetAudit.Translates]. It takes privileges over the
// namespace.
func Ruleset(of Overlay) (RulesetAudit, error) {
	chains, err := nft.DumpFilter(unix.NFT_MSG_GETCHAIN)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) {
		return RulesetAudit{}, nil // this kernel has no nftables
	}
	if err != nil {
		return RulesetAudit{}, fmt.Errorf("dump nftables chains: %w", err)
	}
	a := RulesetAudit{DeviceChains: map[string]Direction{}}
	if a.Flowtable, err = flowtable(of.Family); err != nil {
		return a, err
	}
	w := newWalker(of)
	var begins []baseChain
	for _, m := range chains {
		c, err := nft.ReadChain(m)
		if err != nil {
			return a, fmt.Errorf("parse nftables chain: %w", err)
		}
		table := [2]string{c.Family, c.Table}
		if isOfIPTables(c) {
			w.iptables[table] = true
		}
		if c.Hook != "" && c.Type != "nat" {
			w.filters[table] = true
		}
		if !slices.Contains(w.unscanned, table) {
			w.unscanned = append(w.unscanned, table)
		}
		if c.Hook == "" || slices.Contains(of.Family.otherTables(), c.Family) {
			continue
		}
		devices, side, drops, err := readBase(m)
		if err != nil {
			return a, fmt.Errorf("parse nftables chain: %w", err)
		}
		for _, d := range devices {
			a.DeviceChains[d] |= side
		}
		met := baseChains(c, drops, of.Protocol != 0)
		if len(met) == 0 {
			w.unmet[chainName{family: c.Family, table: c.Table, chain: c.Name}] = true
		}
		switch {
		case c.Type == "nat":
			a.Translates = true
			w.tracks = w.tracks || hasRules(m) // connection tracking may not even be there without one
			w.noteTranslating(met)
		case len(devices) == 0:
			begins = append(begins, met...)
		}
	}
	if err := w.scanRules(false); err != nil {
		return a, err
	}
	sortChains(begins)
	err = a.audit(w, begins)
	a.Tracks, a.TracksBridged = w.tracks || w.onBridges, w.onBridges
	return a, err
}

// walk walks the chains as packets of established flows do, and as those of connections without a
// reply.
func (a *RulesetAudit) walk(w *chainWalker, begins []baseChain) error {
	err := w.walkAll(begins)
	if err == nil && w.untracked { // once more for packets of connections that are not tracked
		w.stateless = true
		err = w.walkAll(begins)
		w.stateless = false
	} else if err == nil && w.untracksPort {
		err = w.walkUntracked(begins)
	}
	if err == nil && (w.separated || len(w.nat) > 0) {
		err = w.findLater(begins)
	}
	a.PerPacket, a.MarkChain, a.LeavesMark = w.summary(), w.markChain, w.leavesMark
	a.noteCounters(w)
	if err != nil {
		return err
	}
	// To connection tracking, each packet is the first of its connection until one is answered.
	// Tunnel packets get no reply, and are audited as such anyway.
	established, counting := *w, len(w.counting.names)
	w.findings, w.unreplied = nil, true
	err = w.walkAll(slices.DeleteFunc(begins, func(c baseChain) bool { return c.outer }))
	a.HidesEvents = w.hidesEvents
	if what := w.besideAdmits(w.counting.names[counting:]); what != "" {
		w.findings = append(w.findings, what)
	}
	if a.PerPacketUnreplied = w.summary(); a.PerPacketUnreplied != "" {
		w = &established // others are not carried
	} else {
		a.noteCounters(w)
	}
	a.ReadsConnMark, a.IPSets = w.readsConnMark, slices.Sorted(slices.Values(w.asked))
	return err
}

// walkUntracked walks as pods' packets to the tunnel's port do, which rules for the tunnel take from connection
// tracking. What these packets count is not considered.
func (w *chainWalker) walkUntracked(begins []baseChain) error {
	counting, byIPTables := w.counting, w.countingByIPTables
	w.counting, w.countingByIPTables = newCountingRules(), newCountingRules()
	w.stateless, w.toTunnel = true, true
	err := w.walkAll(begins)
	w.stateless, w.toTunnel = false, false
	w.counting, w.countingByIPTables = counting, byIPTables
	return err
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
	return verdict, data.Text(unix.NFTA_VERDICT_CHAIN), known && verdict != "other" || code == unix.NFT_BREAK
}
