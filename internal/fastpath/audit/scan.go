package audit

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/venturi-net/venturi/internal/nft"
	"github.com/venturi-net/venturi/internal/nlmsg"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// scannedNames are those of expressions and targets that [chainWalker.scanRule] looks for.
var scannedNames = nameAttrs("dynset", "SET", "ct", "CT", "objref")

// trackingNames are those of expressions, and of matches and targets of iptables, that use connection tracking. A
// rule may have one of them as something else's name.
var trackingNames = nameAttrs("ct", "connlimit", "nat", "masq", "redir", "synproxy", "flow_offload",
	"conntrack", "state", "connmark", "connbytes", "connlabel", "helper", "cluster",
	"CT", "NOTRACK", "CONNMARK", "CONNSECMARK", "SYNPROXY", "DNAT", "SNAT", "MASQUERADE", "REDIRECT", "NETMAP", "CLUSTERIP")

// trackingObjects are the types of objects that do: a helper, timeouts and an expectation.
var trackingObjects = []int{unix.NFT_OBJECT_CT_HELPER, unix.NFT_OBJECT_CT_TIMEOUT, unix.NFT_OBJECT_CT_EXPECT}

// nameAttrs are names as messages of the kernel have them: the attribute is 1 with expressions, matches and targets.
func nameAttrs(names ...string) (all [][]byte) {
	for _, name := range names {
		all = append(all, append(binary.NativeEndian.AppendUint16(nil, unix.NFTA_EXPR_NAME), nl.ZeroTerminated(name)...))
	}
	return all
}

func containsAny(message []byte, names [][]byte) bool {
	return slices.ContainsFunc(names, func(name []byte) bool { return bytes.Contains(message, name) })
}

// scanRules goes through rules for what counts whichever packets meet them: sets that they fill, events
// of connections that they hide, and whether they use connection tracking. Unless all are asked for, it leaves out tables of other families, and that
// of iptables which only translates: with kube-proxy it is by far the largest, iptables puts neither there,
// and no sets of it are read.
func (r *chainWalker) scanRules(all bool) error {
	var rest [][2]string
	for _, table := range r.unscanned {
		if !all && (slices.Contains(r.Family.otherTables(), table[0]) || table[1] == "nat" && r.iptables[table] && !r.filters[table]) {
			rest = append(rest, table)
			continue
		}
		found, err := askFilter(unix.NFT_MSG_GETRULE, table[0], nl.NewRtAttr(unix.NFTA_RULE_TABLE, nl.ZeroTerminated(table[1])))
		if err != nil {
			return fmt.Errorf("dump nftables table %s %s: %w", table[0], table[1], err)
		}
		for _, m := range found {
			if containsAny(m, trackingNames) {
				r.noteTracking(table[0])
			}
			if !containsAny(m, scannedNames) {
				continue
			}
			if err := r.scanRule(m); err != nil {
				return fmt.Errorf("nftables rule of %s %s: %w", table[0], table[1], err)
			}
		}
	}
	r.unscanned = rest
	return nil
}

// noteTracking records a rule of a family of tables that uses connection tracking.
func (r *chainWalker) noteTracking(family string) {
	if family == "bridge" {
		r.onBridges = true
	} else if !slices.Contains(r.Family.otherTables(), family) {
		r.tracks = true
	}
}

func (r *chainWalker) scanRule(message []byte) error {
	attrs, family, err := nft.FilterAttrs(message)
	if err != nil {
		return err
	}
	data := nlmsg.ByNumber(attrs)
	elems, err := nl.ParseRouteAttr(data[unix.NFTA_RULE_EXPRESSIONS])
	if err != nil {
		return err
	}
	c := chainName{family: family, table: data.Text(unix.NFTA_RULE_TABLE), chain: data.Text(unix.NFTA_RULE_CHAIN)}
	for _, e := range elems {
		name, expression, err := nft.ExpressionData(e.Value)
		if err != nil {
			return err
		}
		target := ""
		if name == "target" {
			target = expression.Text(1) // NFTA_TARGET_NAME
		}
		switch {
		case name == "objref" && (!expression.Has(unix.NFTA_OBJREF_IMM_TYPE) || slices.Contains(trackingObjects, expression.BigEndian32(unix.NFTA_OBJREF_IMM_TYPE))): // or by a map
			r.noteTracking(family)
		case name == "dynset":
			r.sets.dynamic[setName{c.family, c.table, expression.Text(unix.NFTA_DYNSET_SET_NAME)}] = true
		case target == "SET":
			r.sets.fillsIPSets = true
		case target == "CT" && setsEvents(expression.Bytes(3)): // NFTA_TARGET_INFO
			r.noteEvents(c, message, "target CT with events")
		case name == "ct" && expression.Has(unix.NFTA_CT_SREG) && expression.BigEndian32(unix.NFTA_CT_KEY) == unix.NFT_CT_EVENTMASK:
			r.noteEvents(c, message, "ct event")
		}
	}
	return nil
}

// setsEvents reports whether the target CT of iptables sets events, of connections or of expectations: both
// replace the events that are announced without it.
func setsEvents(info []byte) bool {
	const events, end = 4, 12 // struct xt_ct_target_info, of all revisions: ct_events, exp_events
	return len(info) < end || slices.ContainsFunc(info[events:end], func(b byte) bool { return b != 0 })
}

// noteEvents records a rule that sets which events of connections the kernel announces, whichever packets it
// matches: those that open a connection decide what is announced of it. Packets may come to any chain
// without a hook, because any rule of its table may jump there, and so may the elements of maps.
func (r *chainWalker) noteEvents(c chainName, message []byte, by string) {
	if r.hidesEvents == "" && !r.unmet[c] && !slices.Contains(r.Family.otherTables(), c.family) {
		r.hidesEvents = ruleName(c, message) + ": " + by
	}
}
