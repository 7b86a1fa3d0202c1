package audit

import (
	"fmt"

	"github.com/venturi-net/venturi/internal/nft"
)

// States of connections, beside [nft.StateNew] and [nft.StateEstablished].
const (
	stateInvalid   = 1 << 0
	stateUntracked = 1 << 6
)

// states are the connection states that packets may have. Packets of a tunnel in UDP get no replies,
// because packets in the other direction use other ports. So each may be the first of its
// connection; those of IPIP get replies, and any may be the first after the entry's timeout. Ahead of
// connection tracking, packets have no state, unless a bridge has tracked them.
func (e *exprEvaluator) states() (all []uint32) {
	switch {
	case e.pinned != 0:
		return []uint32{e.pinned}
	case e.chain.outer:
		all = []uint32{nft.StateNew, nft.StateEstablished, stateUntracked}
	case e.stateless:
		all = []uint32{stateUntracked}
	case e.unreplied:
		all = []uint32{nft.StateNew}
	default:
		all = []uint32{nft.StateEstablished}
	}
	if e.chain.early {
		all = append(all, stateInvalid)
	}
	return all
}

// An answer is how a rule tells packets of a connection that nobody has answered from those behind the
// first answer.
type answer uint8

const (
	onlyBefore answer = 1 << iota // it matches none behind the answer
	onlyBehind                    // it matches none ahead of it
)

// matchStates evaluates a rule that matches some connection states. That of a connection without an
// answer is new: the programs do not carry those that connection tracking has expected.
func (e *exprEvaluator) matchStates(passes func(state uint32) bool) {
	if e.unreplied && !e.chain.outer {
		switch before, behind := passes(nft.StateNew), passes(nft.StateEstablished); {
		case before != behind && e.chain.early: // there it may have neither
			e.dependsOnReply("ct state")
			e.alwaysMatches = false
			return
		case before && !behind:
			e.answered |= onlyBefore
		case behind && !before:
			e.answered |= onlyBehind
			e.alwaysMatches = false
			return
		}
	}
	e.separates = e.separates || e.chain.outer && passes(nft.StateEstablished) != passes(nft.StateNew)
	some, all := matchCounts(e.states(), passes)
	e.neverMatches, e.alwaysMatches = e.neverMatches || !some, e.alwaysMatches && all
}

// noteAnswer records a rule that may treat packets worse after the first answer. A rule that accepts
// those behind it does not, nor does one that meets only those ahead of it and accepts none. What rules
// do to marks is not considered, so there must be none that changes one.
func (w *chainWalker) noteAnswer(c chainName, rule ruleEffect, message []byte) error {
	if rule.answered == 0 {
		return nil
	}
	if inert, err := w.isInert(c, rule); inert || err != nil {
		return err
	}
	harmless, err := false, error(nil)
	switch rule.answered {
	case onlyBehind:
		harmless = rule.verdict == "accept" && !rule.verdictMap && !rule.acts
	case onlyBefore:
		if rule.verdict != "goto" && rule.verdict != "return" && !rule.verdictMap {
			harmless, err = w.admitsNothing(c, rule)
		}
	}
	if !harmless {
		w.differences = append(w.differences, ruleName(c, message)+": ct state")
	} else if w.admits == "" {
		w.admits = ruleName(c, message)
	}
	return err
}

// besideAdmits names a rule that packets may miss if others accept more of a connection once that was
// answered; "": there is none. It sets marks, or is the first of those that count what has no answer.
func (w *chainWalker) besideAdmits(counting []string) string {
	switch {
	case w.admits == "":
		return ""
	case w.writesMark != "":
		return fmt.Sprintf("%s: sets marks, beside ct state in %s", w.writesMark, w.admits)
	case len(counting) > 0:
		return fmt.Sprintf("%s: counts or logs, beside ct state in %s", counting[0], w.admits)
	}
	return ""
}

// admitsNothing reports whether a rule, with those that it jumps to, accepts no packet, and takes none
// from connection tracking.
func (w *chainWalker) admitsNothing(c chainName, rule ruleEffect) (bool, error) {
	if rule.unproven != "" || rule.mayAccept || rule.verdict == "accept" || rule.untracks {
		return false, nil
	}
	return w.everyTarget(c, rule, w.admitNone, w.admitsNothing)
}

// tracked reports whether every packet in the chain is sure to belong to a connection.
func (e *exprEvaluator) tracked() bool {
	return !e.chain.early && (e.pinned != 0 || !e.chain.outer && !e.stateless)
}
