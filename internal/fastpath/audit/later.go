package audit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/nft"
)

// findLater finds what drops packets of a tunnel behind the first one of their connection, though the first one passes:
// the network delivers one at most of what it drops. It walks as the later ones do, which are established, and knows
// of each place whether the first of the same connection gets there, too: what drops both has let nothing pass. Where
// that may not be so, they are apart. Behind the hook they meet again, but may differ in marks: so rules that read
// these take them apart, too.
//
// From hook to hook it follows those alone whose destination is not translated, as that of a tunnel's packets is not.
// Otherwise Felix's rules for a host that has a policy would be taken for rules that drop by a mark.
func (w *chainWalker) findLater(begins []baseChain) error {
	w.outerReads = w.connUses[true].reads
	var come, leave, pods []baseChain
	all := slices.Concat(begins, w.nat)
	sortChains(all)
	for _, c := range all {
		switch {
		case !c.outer:
			pods = append(pods, c)
			continue
		case c.hook < slices.Index(nft.HookNames, "forward"):
			come = append(come, c)
		default:
			leave = append(leave, c)
		}
		if c.translates {
			continue
		}
		if _, err := w.followTunnel([]baseChain{c}, 0); err != nil {
			return err
		}
	}
	w.direct = true
	defer func() { w.direct = false }()
	differs, err := w.followTunnel(come, 0)
	if err != nil {
		return err
	}
	if differs, err = w.followPods(pods, differs); err != nil {
		return err
	}
	_, err = w.followTunnel(leave, differs)
	return err
}

// followTunnel follows packets through chains for those of tunnels, and returns what may differ behind these between
// their marks and those of the first packet of their connection, if that did in front of them.
func (w *chainWalker) followTunnel(begins []baseChain, differs uint32) (uint32, error) {
	for _, c := range begins {
		in := w.differing(differs)
		if c.translates {
			_, err := w.walkPinned(c, in, nft.StateNew)
			if err != nil {
				return 0, err
			}
			w.noteLabels()
			w.connUses[true].reads = w.outerReads
			w.findConnMarks()
			w.keepDifferences()
			differs |= w.writes
			continue
		}
		later, err := w.walkPinned(c, in, nft.StateEstablished)
		if err != nil {
			return 0, err
		}
		if later.out.reached && later.out.diverged && c.drops {
			w.differences = append(w.differences, fmt.Sprintf("%s %s %s: its policy %s", c.family, c.table, c.chain, w.dropsLater()))
		}
		w.keepDifferences()
		out := later.out.join(later.accepted)
		if !w.diverges {
			differs = out.differs
			continue
		}
		writes, labels := w.writes, w.labels
		first, err := w.walkPinned(c, in, nft.StateNew)
		if err != nil {
			return 0, err
		}
		equal := out.packet.join(first.out.join(first.accepted).packet).bits
		differs = (differs | writes | w.writes) &^ equal
		w.labels = cmp.Or(labels, w.labels)
		w.noteLabels()
		w.keepDifferences()
	}
	return differs, nil
}

// walkPinned walks from a chain as packets of tunnels do that have a state.
func (w *chainWalker) walkPinned(c baseChain, in markState, state uint32) (chainResult, error) {
	w.begin()
	w.pinned, w.separatedBy, w.diverges, w.writes, w.labels = state, "", false, 0, ""
	w.following = true
	defer func() { w.following, w.pinned = false, 0 }()
	return w.walk(c.chainName, in)
}

// followPods follows packets that have left a tunnel through chains for those of pods, and returns what may differ of
// their marks in the end. Those of connections that nobody has answered meet rules by their state: these do not go
// with any that set marks, see [chainWalker.besideAdmits].
func (w *chainWalker) followPods(begins []baseChain, differs uint32) (left uint32, err error) {
	if differs == 0 {
		return 0, nil
	}
	w.following = true
	defer func() { w.following, w.stateless, w.toTunnel = false, false, false }()
	for _, w.stateless = range []bool{false, true} {
		if w.stateless && !w.untracked && !w.untracksPort {
			break
		}
		w.toTunnel = w.stateless && !w.untracked
		w.begin()
		_, forwarded, err := w.walkFrom(w.differing(differs), begins)
		if err != nil {
			return 0, err
		}
		w.keepDifferences()
		left |= forwarded.differs
	}
	return left, nil
}

// translatesServices reports whether a chain is one of kube-proxy's for translations with iptables. They are large where
// there are many services, and mark nothing else but what they masquerade. Tunnel packets alone are followed there.
func (w *chainWalker) translatesServices(c chainName) bool {
	return c.table == "nat" && w.iptables[[2]string{c.family, c.table}] && strings.HasPrefix(c.chain, "KUBE-")
}

// noteTranslating records chains at a hook that translate addresses, but those of kube-proxy with nftables.
func (w *chainWalker) noteTranslating(met []baseChain) {
	for _, c := range met {
		if c.outer && c.table != "kube-proxy" {
			w.nat = append(w.nat, c)
		}
	}
}

// differing is what is known of the marks of packets that come to a hook, of which some bits may differ.
func (w *chainWalker) differing(differs uint32) markState {
	return markState{reached: true, packet: w.entry.join(markValue{bits: ^differs, value: w.entry.value &^ differs, conn: ^differs}), differs: differs}
}

// noteLabels records a rule that sets security marks, where it may do so of the first packet alone, or of all but that:
// the kernel's security modules decide by them.
func (w *chainWalker) noteLabels() {
	if w.labels != "" {
		w.differences = append(w.differences, w.labels+": sets security marks, of some packets of a tunnel by ct state")
	}
}

// dropsLater says what a drop does that only packets behind the first one come to.
func (w *chainWalker) dropsLater() string {
	if w.separatedBy == "" {
		return "drops established tunnel packets, by a mark"
	}
	return "drops established tunnel packets, by ct state in " + w.separatedBy
}

// noteLater records a rule that drops packets which are apart from the first of their connection, or decides on what
// comes out of a tunnel by a mark that may differ from that of the first one.
func (w *chainWalker) noteLater(c chainName, rule ruleEffect, message []byte) error {
	w.diverges = w.diverges || rule.readsDiffering
	w.noteConnMarks(c, rule, message)
	why := w.dropsLater()
	switch {
	case !c.outer && !rule.readsDiffering:
		return nil
	case !c.outer:
		if inert, err := w.isInert(c, rule); inert || err != nil {
			return err
		}
		why = "reads a mark that depends on the ct state of tunnel packets"
	case !rule.marks.diverged || rule.verdict != "drop" && !(rule.verdictMap && rule.mayDrop):
		return nil
	case rule.separates:
		why = "ct state"
	}
	w.differences = append(w.differences, ruleName(c, message)+": "+why)
	return nil
}

// separate follows a rule that packets behind the first of their connection meet, and the first one, too. It returns
// what is known of the former where they do not match, and records it in the rule where they do.
func (w *chainWalker) separate(c chainName, in markState, rule *ruleEffect, message []byte) (next markState, err error) {
	switch {
	case in.diverged:
		return in, nil
	case !rule.separates:
		return w.separateByMark(c, in, rule)
	}
	w.pinned = nft.StateNew
	first, err := w.read(c, in, message)
	w.pinned = 0 // for whatever packets, in what follows
	defer func() { w.pinned = nft.StateEstablished }()
	if err != nil {
		return in, err
	}
	var harmless bool
	switch {
	case rule.neverMatches && first.neverMatches:
		return in, nil
	case rule.neverMatches:
		harmless, err = w.comesBack(c, first)
	case first.neverMatches:
		harmless, err = w.isInert(c, *rule)
	case first.verdict == "drop" && !first.verdictMap && !first.readsDiffering: // nothing of the connection passes
		rule.neverMatches, rule.partial, harmless = true, &ruleEffect{}, true
	default:
		harmless = !rule.readsDiffering && !rule.acts && !rule.verdictMap && !first.verdictMap && rule.verdict == first.verdict && slices.Equal(rule.targets, first.targets)
	}
	if harmless || err != nil {
		return in, err
	}
	if w.separatedBy == "" {
		w.separatedBy = ruleName(c, message)
	}
	still, err := w.changesNothing(c, *rule)
	if err != nil {
		return in, err
	}
	w.diverges = true
	rule.rejoins = first.neverMatches && still && rule.verdict == "jump" && !rule.verdictMap
	in.diverged, rule.marks.diverged = rule.neverMatches || rule.readsDiffering && !first.neverMatches, true
	return in, nil
}

// separateByMark does so for a rule that may match one of them alone, by a mark.
func (w *chainWalker) separateByMark(c chainName, in markState, rule *ruleEffect) (next markState, err error) {
	if rule.neverMatches {
		rule = rule.partial
	}
	if !rule.readsDiffering {
		return in, nil
	}
	w.pinned = 0 // for whatever packets
	defer func() { w.pinned = nft.StateEstablished }()
	inert, err := w.isInert(c, *rule)
	if inert || err != nil {
		return in, err
	}
	still, err := w.changesNothing(c, *rule)
	if err != nil {
		return in, err
	}
	back, err := w.comesBack(c, *rule)
	rule.rejoins = still && rule.verdict == "jump" && !rule.verdictMap
	in.diverged, rule.marks.diverged = !back, true
	return in, err
}

// comesBack reports whether packets that match a rule go on behind it as those that do not, or are dropped.
func (w *chainWalker) comesBack(c chainName, rule ruleEffect) (bool, error) {
	if rule.verdictMap || rule.verdict != "" && rule.verdict != "jump" && rule.verdict != "drop" {
		return false, nil
	}
	if still, err := w.changesNothing(c, rule); !still || err != nil {
		return false, err
	}
	return w.admitsNothing(c, rule)
}

// changesNothing reports whether a rule, with those that it jumps to, does nothing to packets but decide on them.
func (w *chainWalker) changesNothing(c chainName, rule ruleEffect) (bool, error) {
	if rule.acts || rule.unproven != "" {
		return false, nil
	}
	return w.everyTarget(c, rule, w.actNone, w.changesNothing)
}
