package audit

import (
	"fmt"
	"slices"

	"github.com/venturi-net/venturi/internal/nft"
)

// findLater finds what drops packets of a tunnel behind the first one of their connection, though the first one passes:
// the network delivers one at most of what it drops. It walks as the later ones do, which are established, and knows
// of each place whether the first of the same connection gets there, too: what drops both has let nothing pass. Where
// that may not be so, they are apart. If rules give marks to one of them alone, rules at later hooks may do the same.
func (r *chainWalker) findLater(begins []baseChain) error {
	r.begin()
	defer func() { r.pinned = 0 }()
	for _, c := range begins {
		if !c.outer {
			continue
		}
		r.pinned, r.separatedBy, r.walked, r.visits = nft.StateEstablished, "", map[walkedChain]chainResult{}, map[chainName]int{}
		result, err := r.walk(c.chainName, markState{reached: true, packet: r.entry, diverged: r.marksOne})
		if err != nil {
			return err
		}
		if result.out.reached && result.out.diverged && c.drops {
			r.differences = append(r.differences, fmt.Sprintf("%s %s %s: its policy %s", c.family, c.table, c.chain, r.dropsLater()))
		}
	}
	r.keepDifferences()
	return nil
}

// dropsLater says what a drop does that only packets behind the first one come to.
func (r *chainWalker) dropsLater() string {
	if r.separatedBy == "" {
		return "drops established packets of a tunnel, by a mark"
	}
	return "drops established packets of a tunnel, by ct state in " + r.separatedBy
}

// noteDrop records a rule that drops packets which are apart from the first of their connection.
func (r *chainWalker) noteDrop(c chainName, rule ruleEffect, message []byte) {
	if !rule.marks.diverged || rule.verdict != "drop" && !(rule.verdictMap && rule.mayDrop) {
		return
	}
	why := r.dropsLater()
	if rule.separates {
		why = "ct state"
	}
	r.differences = append(r.differences, ruleName(c, message)+": "+why)
}

// separate follows a rule that packets behind the first of their connection meet, and the first one, too. It returns
// what is known of the former where they do not match, and records it in the rule where they do.
func (r *chainWalker) separate(c chainName, in markState, rule *ruleEffect, message []byte) (next markState, err error) {
	if !rule.separates || in.diverged {
		return in, nil
	}
	r.pinned = nft.StateNew
	first, err := r.read(c, in, message)
	r.pinned = 0 // for whatever packets, in what follows
	defer func() { r.pinned = nft.StateEstablished }()
	if err != nil {
		return in, err
	}
	var harmless bool
	switch {
	case rule.neverMatches && first.neverMatches:
		return in, nil
	case rule.neverMatches:
		harmless, err = r.comesBack(c, first)
	case first.neverMatches:
		harmless, err = r.isInert(c, *rule)
	case first.verdict == "drop" && !first.verdictMap: // nothing of the connection passes
		rule.neverMatches, rule.partial, harmless = true, &ruleEffect{}, true
	default:
		harmless = !rule.acts && !rule.verdictMap && !first.verdictMap && rule.verdict == first.verdict && slices.Equal(rule.targets, first.targets)
	}
	if harmless || err != nil {
		return in, err
	}
	if r.separatedBy == "" {
		r.separatedBy = ruleName(c, message)
	}
	still, err := r.changesNothing(c, *rule)
	if err != nil {
		return in, err
	}
	firstStill, err := r.changesNothing(c, first)
	r.marksOne = r.marksOne || !rule.neverMatches && !still || !first.neverMatches && !firstStill
	rule.rejoins = first.neverMatches && still && rule.verdict == "jump" && !rule.verdictMap
	in.diverged, rule.marks.diverged = rule.neverMatches, true
	return in, err
}

// comesBack reports whether packets that match a rule go on behind it as those that do not, or are dropped.
func (r *chainWalker) comesBack(c chainName, rule ruleEffect) (bool, error) {
	if rule.verdictMap || rule.verdict != "" && rule.verdict != "jump" && rule.verdict != "drop" {
		return false, nil
	}
	if still, err := r.changesNothing(c, rule); !still || err != nil {
		return false, err
	}
	return r.admitsNothing(c, rule)
}

// changesNothing reports whether a rule, with those that it jumps to, does nothing to packets but decide on them.
func (r *chainWalker) changesNothing(c chainName, rule ruleEffect) (bool, error) {
	if rule.acts || rule.unproven != "" {
		return false, nil
	}
	return r.everyTarget(c, rule, r.actNone, r.changesNothing)
}
