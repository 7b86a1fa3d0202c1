package host

// What tests look at from outside: not every kernel and tool knows all of it.

var FickleSelector = perPacketSelector

// RuleOf gives what is fickle in the message of a rule.
func RuleOf(message []byte) (fickle string, err error) {
	r := chainWalker{sets: newSetReader()}
	rule, err := r.read(chainName{"ip", "t", "c", false}, message)
	return rule.perPacket, err
}

// SetOf gives what is fickle in the message of a set.
func SetOf(message []byte) (fickle string, err error) {
	attrs, _, err := filterAttrs(message)
	s := &filterSet{}
	s.auditHead("s", attrs)
	return s.perPacket, err
}

// ElementOf gives what is fickle in an element of a set.
func ElementOf(message []byte) (fickle string, err error) {
	_, fickle, err = readElement(message)
	return fickle, err
}

// RouteOf, NexthopOf and NeighbourOf give what is not proven in the message of one.
func RouteOf(message []byte) (why string, devices []int, err error) {
	m, err := readRouteMessage(message)
	return m.reason, m.devices, err
}

func NexthopOf(message []byte) (why string, err error) {
	m, err := readNexthop(message)
	return m.reason, err
}

func NeighbourOf(message []byte) (why, name, value string, err error) {
	e, err := readNeighbour(message)
	return e.unknownAttr, neighbourKey(&e), neighbourFingerprint(&e), err
}

// OuterOf gives why the outer headers of a tunnel are not the same for all packets.
func OuterOf(attributes []byte) (why string, err error) {
	_, why, err = parseVXLANHeader(attributes)
	return why, err
}
