package audit

// isInert reports whether it makes no difference which packets a rule matches: it only counts, logs,
// or jumps to such rules.
func (w *chainWalker) isInert(c chainName, rule ruleEffect) (bool, error) {
	if rule.acts || rule.unproven != "" || rule.verdictMap || rule.verdict != "" && rule.verdict != "jump" {
		return false, nil
	}
	return w.everyTarget(c, rule, w.inert, w.isInertBehind)
}

// isInertBehind does so for a rule of a chain of which all rules are to be inert: it may also return, as that skips no
// others.
func (w *chainWalker) isInertBehind(c chainName, rule ruleEffect) (bool, error) {
	if rule.verdict == "return" {
		rule.verdict = ""
	}
	return w.isInert(c, rule)
}

// everyTarget reports whether something holds for all rules of the chains that a rule may jump to. It
// asks each chain once, and knows it from then on: otherwise it would ask as often as there are ways to
// the chain.
func (w *chainWalker) everyTarget(c chainName, rule ruleEffect, known map[chainName]bool, holds func(to chainName, behind ruleEffect) (bool, error)) (bool, error) {
	for _, name := range rule.targets {
		to := c.sibling(name)
		if _, asked := known[to]; !asked {
			known[to] = false // rules that change while they are read may seem to go in circles
			yes, err := w.everyRule(to, holds)
			if err != nil {
				return false, err
			}
			known[to] = yes
		}
		if !known[to] {
			return false, nil
		}
	}
	return true, nil
}

// everyRule reports whether something holds for all rules of a chain.
func (w *chainWalker) everyRule(c chainName, holds func(c chainName, rule ruleEffect) (bool, error)) (bool, error) {
	messages, err := w.rules(c)
	if err != nil {
		return false, err
	}
	for _, m := range messages {
		rule, err := w.read(c, markState{reached: true}, m)
		if err != nil {
			return false, err
		}
		if yes, err := holds(c, rule); !yes || err != nil {
			return false, err
		}
	}
	return true, nil
}
