package audit

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/venturi-net/venturi/internal/nft"
	"github.com/venturi-net/venturi/internal/nlmsg"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// scannedNames are those of expressions and targets that [chainWalker.scanRule] looks for.
var scannedNames = [][]byte{[]byte("dynset\x00"), []byte("SET\x00"), []byte("ct\x00"), []byte("CT\x00")}

// scanRules goes through rules for what counts whichever packets meet them: sets that they fill, and events
// of connections that they hide. Unless all are asked for, it leaves out tables of other families, and that
// of iptables which only translates: with kube-proxy it is by far the largest, iptables puts neither there,
// and no sets of it are read.
func (w *chainWalker) scanRules(all bool) error {
	var rest [][2]string
	for _, table := range w.unscanned {
		if !all && (slices.Contains(w.Family.otherTables(), table[0]) || table[1] == "nat" && w.iptables[table] && !w.filters[table]) {
			rest = append(rest, table)
			continue
		}
		found, err := askFilter(unix.NFT_MSG_GETRULE, table[0], nl.NewRtAttr(unix.NFTA_RULE_TABLE, nl.ZeroTerminated(table[1])))
		if err != nil {
			return fmt.Errorf("dump nftables table %s %s: %w", table[0], table[1], err)
		}
		for _, m := range found {
			if !slices.ContainsFunc(scannedNames, func(name []byte) bool { return bytes.Contains(m, name) }) {
				continue
			}
			if err := w.scanRule(m); err != nil {
				return fmt.Errorf("nftables rule of %s %s: %w", table[0], table[1], err)
			}
		}
	}
	w.unscanned = rest
	return nil
}

func (w *chainWalker) scanRule(message []byte) error {
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
		case name == "dynset":
			w.sets.dynamic[setName{c.family, c.table, expression.Text(unix.NFTA_DYNSET_SET_NAME)}] = true
		case target == "SET":
			w.sets.fillsIPSets = true
		case target == "CT" && setsEvents(expression.Bytes(3)): // NFTA_TARGET_INFO
			w.noteEvents(c, message, "target CT with events")
		case name == "ct" && expression.Has(unix.NFTA_CT_SREG) && expression.BigEndian32(unix.NFTA_CT_KEY) == unix.NFT_CT_EVENTMASK:
			w.noteEvents(c, message, "ct event")
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
func (w *chainWalker) noteEvents(c chainName, message []byte, by string) {
	if w.hidesEvents == "" && !w.unmet[c] && !slices.Contains(w.Family.otherTables(), c.family) {
		w.hidesEvents = ruleName(c, message) + ": " + by
	}
}
