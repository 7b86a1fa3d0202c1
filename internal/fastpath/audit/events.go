package audit

import (
	"bytes"
	"slices"
)

// setsEvents reports whether the target CT of iptables sets events, of connections or of expectations: both
// replace the events that are announced without it.
func setsEvents(info []byte) bool {
	const events, end = 4, 12 // struct xt_ct_target_info, of all revisions: ct_events, exp_events
	return len(info) < end || slices.ContainsFunc(info[events:end], func(b byte) bool { return b != 0 })
}

// findEventMasks finds rules of a chain that set which events of connections the kernel announces, whichever
// packets they match: those that open a connection decide what is announced of it.
func (r *chainWalker) findEventMasks(c chainName, messages [][]byte) error {
	for _, m := range messages {
		if r.hidesEvents != "" || !bytes.Contains(m, []byte("ct\x00")) && !bytes.Contains(m, []byte("CT\x00")) {
			continue // it has neither the expression nor the target
		}
		rule, err := r.read(c, markState{reached: true}, m)
		if err != nil {
			return err
		}
		if rule.masksEvents != "" {
			r.hidesEvents = ruleName(c, m) + ": " + rule.masksEvents
		}
	}
	return nil
}

// loadTargets reads the chains to which a rule leads packets that are not carried, such as those that open
// connections over TCP.
func (r *chainWalker) loadTargets(c chainName, rule ruleEffect) error {
	if !r.unreplied { // the walk for packets without a reply follows most of what others do not
		return nil
	}
	for _, name := range rule.targets {
		to := c.sibling(name)
		if r.loaded[to] {
			continue
		}
		r.loaded[to] = true
		messages, err := r.rules(to)
		for i := 0; err == nil && i < len(messages); i++ {
			var behind ruleEffect
			if behind, err = r.read(to, markState{reached: true}, messages[i]); err == nil {
				err = r.loadTargets(to, behind)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}
