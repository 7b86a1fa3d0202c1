package audit

import (
	"fmt"

	"github.com/venturi-net/venturi/internal/nft"
)

// states are the connection states that packets may have. Packets of a tunnel in UDP get no replies,
// because packets in the other direction use other ports. So each may be the first of its
// connection; those of IPIP get replies, and any may be the first after the entry's timeout. Ahead of
// connection tracking, packets have no state, unless a bridge has tracked them.
func (r *exprEvaluator) states() (all []uint32) {
	switch {
	case r.pinned != 0:
		return []uint32{r.pinned}
	case r.chain.outer:
		all = []uint32{nft.StateNew, nft.StateEstablished, stateUntracked}
	case r.stateless:
		all = []uint32{stateUntracked}
	case r.unreplied:
		all = []uint32{nft.StateNew}
	default:
		all = []uint32{nft.StateEstablished}
	}
	if r.chain.early {
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
func (r *exprEvaluator) matchStates(passes func(state uint32) bool) {
	if r.unreplied && !r.chain.outer {
		switch before, behind := passes(nft.StateNew), passes(nft.StateEstablished); {
		case before != behind && r.chain.early: // there it may have neither
			r.dependsOnReply("ct state")
			r.alwaysMatches = false
			return
		case before && !behind:
			r.answered |= onlyBefore
		case behind && !before:
			r.answered |= onlyBehind
			r.alwaysMatches = false
			return
		}
	}
	r.separates = r.separates || r.chain.outer && passes(nft.StateEstablished) != passes(nft.StateNew)
	some, all := matchCounts(r.states(), passes)
	r.neverMatches, r.alwaysMatches = r.neverMatches || !some, r.alwaysMatches && all
}

// noteAnswer records a rule that may treat packets worse after the first answer. A rule that accepts
// those behind it does not, nor does one that meets only those ahead of it and accepts none. What rules
// do to marks is not considered, so there must be none that changes one.
func (r *chainWalker) noteAnswer(c chainName, rule ruleEffect, message []byte) error {
	if rule.answered == 0 {
		return nil
	}
	if inert, err := r.isInert(c, rule); inert || err != nil {
		return err
	}
	harmless, err := false, error(nil)
	switch rule.answered {
	case onlyBehind:
		harmless = rule.verdict == "accept" && !rule.verdictMap && !rule.acts
	case onlyBefore:
		if rule.verdict != "goto" && rule.verdict != "return" && !rule.verdictMap {
			harmless, err = r.admitsNothing(c, rule)
		}
	}
	if !harmless {
		r.differences = append(r.differences, ruleName(c, message)+": ct state")
	} else if r.admits == "" {
		r.admits = ruleName(c, message)
	}
	return err
}

// besideAdmits names a rule that packets may miss if others accept more of a connection once that was
// answered; "": there is none. It sets marks, or is the first of those that count what has no answer.
func (r *chainWalker) besideAdmits(counting []string) string {
	switch {
	case r.admits == "":
		return ""
	case r.writesMark != "":
		return fmt.Sprintf("%s: sets marks, beside ct state in %s", r.writesMark, r.admits)
	case len(counting) > 0:
		return fmt.Sprintf("%s: counts or logs, beside ct state in %s", counting[0], r.admits)
	}
	return ""
}

// admitsNothing reports whether a rule, with those that it jumps to, accepts no packet, and takes none
// from connection tracking.
func (r *chainWalker) admitsNothing(c chainName, rule ruleEffect) (bool, error) {
	if rule.unproven != "" || rule.mayAccept || rule.verdict == "accept" || rule.untracks {
		return false, nil
	}
	return r.everyTarget(c, rule, r.admitNone, r.admitsNothing)
}

// tracked reports whether every packet in the chain is sure to belong to a connection.
func (r *exprEvaluator) tracked() bool {
	return !r.chain.early && (r.pinned != 0 || !r.chain.outer && !r.stateless)
}
