package audit

import "github.com/venturi-net/venturi/internal/nft"

// RuleOf gives what is fickle in the message of a rule.
func RuleOf(message []byte) (fickle string, err error) {
	r := chainWalker{sets: newSetReader()}
	rule, err := r.read(chainName{"ip", "t", "c", false}, message)
	return rule.perPacket, err
}

// SetOf gives what is fickle in the message of a set.
func SetOf(message []byte) (fickle string, err error) {
	attrs, _, err := nft.FilterAttrs(message)
	s := &filterSet{}
	s.auditHead("s", attrs)
	return s.perPacket, err
}

// ElementOf gives what is fickle in an element of a set.
func ElementOf(message []byte) (fickle string, err error) {
	_, fickle, err = readElement(message)
	return fickle, err
}
