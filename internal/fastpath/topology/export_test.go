package topology

// What tests look at from outside: not every kernel and tool knows all of it.

var FickleSelector = perPacketSelector

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

// LinkOf gives what is not proven in the message of a device.
func LinkOf(message []byte) (reason string, err error) {
	_, reason, err = auditLink(message)
	return reason, err
}

// FilterOf gives the kind of a filter, and an action of it that is not proven.
func FilterOf(message []byte) (kind, action string) {
	f := readFilter(message)
	return f.kind, f.action
}
