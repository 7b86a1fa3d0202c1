package audit

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/venturi-net/venturi/internal/nft"
	"github.com/venturi-net/venturi/internal/nlmsg"
	"golang.org/x/sys/unix"
)

type chainName struct {
	family, table, chain string
	outer                bool // tunnel packets meet it, not pods' packets
	early                bool // packets meet it ahead of connection tracking
	untranslated         bool // tunnel packets meet it ahead of translations of their destination
}

// walkedChain is a chain that packets with some marks enter.
type walkedChain struct {
	chainName
	marks markState
}

// chainResult is what is known of the marks of packets behind a chain.
type chainResult struct {
	out      markState // of those that go on in the calling chain, or meet the policy
	accepted markState
}

// connUses are the rules that read or write the marks of connections, with the bits.
type connUses struct{ reads, writes []connUse }

type connUse struct {
	rule string
	bits uint32
}

// maxMarkStates is with how many different marks a chain is walked. After that, nothing is taken as
// known of the marks of packets that enter it.
const maxMarkStates = 16

// walkAll walks from chains at hooks, in the order in which packets meet them.
//
// Packets of pods come without a mark. But a packet keeps its mark when it enters or leaves a
// tunnel, so it may come to any hook with what the rules at any other hook have given it.
func (w *chainWalker) walkAll(begins []baseChain) error {
	for entry := knownMark(0); ; {
		w.begin()
		left, forwarded, err := w.walkFrom(markState{reached: true, packet: entry}, begins)
		if err != nil {
			return err
		}
		w.entry = w.entry.join(left)
		if left == entry {
			w.leavesMark = w.leavesMark || forwarded.packet != knownMark(0)
			break
		}
		entry = left
	}
	w.findConnMarks()
	w.keepDifferences()
	return nil
}

// keepDifferences adds what a walk has found to what others have.
func (w *chainWalker) keepDifferences() {
	for _, what := range w.differences {
		if !slices.Contains(w.findings, what) {
			w.findings = append(w.findings, what)
		}
	}
}

// walkFrom walks from chains at hooks, as packets that come with a mark, and returns what is known
// of the marks which packets come with or leave with, and of those that pods' packets have in the end.
func (w *chainWalker) walkFrom(first markState, begins []baseChain) (left markValue, forwarded markState, err error) {
	// Of bridges' hooks it is not known when packets meet them. That matters if a rule there changes marks.
	entry, at, ordered := first.packet, first, true
	w.writes = 0
	for _, bridges := range []bool{true, false} {
		for _, c := range begins {
			if (c.family == "bridge") != bridges {
				continue
			}
			in := first
			if ordered && !bridges && !c.outer {
				in = at
			}
			result, err := w.walk(c.chainName, in)
			if err != nil {
				return entry, at, err
			}
			out := result.out.join(result.accepted)
			if !out.reached {
				continue // no packet goes on, so none is carried either
			}
			entry = entry.join(out.packet)
			if ordered && !bridges && !c.outer {
				at = out
			}
		}
		ordered = ordered && (!bridges || w.writes == 0)
	}
	if !ordered {
		at.packet = entry
	}
	return entry, at, nil
}

// walk goes through a chain and every chain that it jumps to.
func (w *chainWalker) walk(c chainName, in markState) (result chainResult, err error) {
	at := walkedChain{c, in}
	if known, ok := w.walked[at]; ok {
		return known, nil
	}
	unknown := markState{reached: true, diverged: in.diverged}
	if in.differs != 0 {
		unknown.differs = ^uint32(0)
	}
	if in != unknown {
		if w.visits[c]++; w.visits[c] > maxMarkStates {
			return w.walk(c, unknown)
		}
	}
	if w.translatesServices(c) {
		return chainResult{out: in}, nil
	}
	w.walked[at] = result // rules that change while they are read may seem to go in circles
	rules, err := w.rules(c)
	if err != nil {
		return result, fmt.Errorf("dump nftables chain %s %s %s: %w", c.family, c.table, c.chain, err)
	}
	for _, message := range rules {
		if !in.reached {
			break
		}
		if in, err = w.step(c, in, message, &result); err != nil {
			return result, fmt.Errorf("nftables rule of %s %s %s: %w", c.family, c.table, c.chain, err)
		}
	}
	result.out = result.out.join(in)
	w.walked[at] = result
	return result, nil
}

// step goes through a rule, and returns the marks of packets that meet the next one.
func (w *chainWalker) step(c chainName, in markState, message []byte, result *chainResult) (next markState, err error) {
	rule, err := w.read(c, in, message)
	if err != nil {
		return in, err
	}
	switch {
	case w.pinned == nft.StateEstablished:
		in, err = w.separate(c, in, &rule, message)
	case w.following:
	default:
		w.noteCounter(c, rule, message)
		if rule.neverMatches {
			err = w.noteConsumption(c, rule, message)
		}
	}
	if err != nil {
		return in, err
	}
	if rule.neverMatches {
		if !rule.partial.hasEffect() {
			return in, nil
		}
		rule = *rule.partial
	}
	w.writes |= rule.markWrites
	if w.labels == "" && rule.setsSecmark {
		w.labels = ruleName(c, message)
	}
	if w.following {
		if err := w.noteLater(c, rule, message); err != nil {
			return in, err
		}
	} else if err := w.noteAnswer(c, rule, message); err != nil || rule.answered&onlyBehind != 0 {
		return in, err
	} else if err := w.note(c, rule, message); err != nil {
		return in, err
	}
	var back markState // of packets that come back from the chains that it jumps to
	for _, to := range rule.targets {
		sub, err := w.walk(c.sibling(to), rule.marks)
		if err != nil {
			return in, err
		}
		result.accepted = result.accepted.join(sub.accepted)
		back = back.join(sub.out)
	}
	back.diverged = back.diverged && !rule.rejoins
	if !rule.alwaysMatches {
		next = in
	}
	switch {
	case rule.verdictMap:
		result.out, result.accepted = result.out.join(back).join(rule.marks), result.accepted.join(rule.marks)
		next = next.join(rule.marks)
		if rule.mayJump {
			next = next.join(back)
		}
	case rule.verdict == "accept":
		result.accepted = result.accepted.join(rule.marks)
	case rule.verdict == "drop":
	case rule.verdict == "return":
		result.out = result.out.join(rule.marks)
	case rule.verdict == "goto":
		result.out = result.out.join(back)
	case rule.verdict == "jump":
		next = next.join(back)
	default:
		next = next.join(rule.marks)
	}
	return next, nil
}

// sibling is another chain of the same table, as the same packets meet it.
func (c chainName) sibling(name string) chainName {
	c.chain = name
	return c
}

// note records what a rule does that packets meet.
func (w *chainWalker) note(c chainName, rule ruleEffect, message []byte) error {
	if rule.untracks && !c.outer {
		w.untracked, w.untracksPort = w.untracked || !rule.tunnelOnly, w.untracksPort || rule.tunnelOnly
	}
	if rule.setsMark {
		w.markChain = fmt.Sprintf("%s %s %s", c.family, c.table, c.chain)
	}
	if rule.setsSecmark { // a tunnel keeps the security mark of what enters it, and no rule clears one
		w.markChain, w.leavesMark = cmp.Or(w.markChain, fmt.Sprintf("%s %s %s", c.family, c.table, c.chain)), true
	}
	if w.writesMark == "" && (rule.setsMark || rule.setsSecmark || rule.connWrites != 0) {
		w.writesMark = ruleName(c, message)
	}
	w.separated = w.separated || rule.separates
	w.readsConnMark = w.readsConnMark || rule.connReads != 0
	w.noteConnMarks(c, rule, message)
	why := rule.unproven
	if why == "" {
		if why = cmp.Or(rule.perPacket, rule.replyDependent); why == "" && rule.asks == nil {
			return nil
		}
		if inert, err := w.isInert(c, rule); inert || err != nil {
			return err
		}
		for _, name := range rule.asks {
			if !slices.Contains(w.asked, name) {
				w.asked = append(w.asked, name)
			}
		}
		if why == "" {
			return nil
		}
	}
	w.differences = append(w.differences, ruleName(c, message)+": "+why)
	return nil
}

// noteConnMarks records a rule that reads or writes the mark of a connection.
func (w *chainWalker) noteConnMarks(c chainName, rule ruleEffect, message []byte) {
	uses := w.connUses[c.outer]
	if rule.connReads != 0 {
		uses.reads = append(uses.reads, connUse{ruleName(c, message), rule.connReads})
	}
	if rule.connWrites != 0 {
		uses.writes = append(uses.writes, connUse{ruleName(c, message), rule.connWrites})
	}
}

// findConnMarks finds rules that depend on the mark of a connection which packets of the flow may
// change.
func (w *chainWalker) findConnMarks() {
	for _, outer := range []bool{false, true} {
		for _, read := range w.connUses[outer].reads {
			for _, write := range w.connUses[outer].writes {
				if read.bits&write.bits != 0 {
					w.differences = append(w.differences, fmt.Sprintf("%s: ct mark, which %s writes", read.rule, write.rule))
				}
			}
		}
	}
}

// summary names the first finding, and says how many others there are.
func (w *chainWalker) summary() string {
	if len(w.findings) == 0 {
		return ""
	}
	return summarize(w.findings[0], len(w.findings))
}

// summarize names the first of some, and says how many others there are.
func summarize(first string, n int) string {
	if n > 1 {
		return fmt.Sprintf("%s; %d more", first, n-1)
	}
	return first
}

// rules reads the rules of a chain. A chain that is gone has none.
func (w *chainWalker) rules(c chainName) (found [][]byte, err error) {
	at := [3]string{c.family, c.table, c.chain}
	found, known := w.chains[at]
	if known {
		return found, nil
	}
	if found, err = dumpChain(c); err != nil {
		return nil, err
	}
	w.chains[at] = found
	return found, nil
}

// ruleName names a rule as nft does.
func ruleName(c chainName, message []byte) string {
	name := fmt.Sprintf("%s %s %s", c.family, c.table, c.chain)
	attrs, _, err := nft.FilterAttrs(message)
	if handle := nlmsg.ByNumber(attrs)[unix.NFTA_RULE_HANDLE]; err == nil && len(handle) == 8 {
		name += fmt.Sprintf(" handle %d", binary.BigEndian.Uint64(handle))
	}
	return name
}
