package topology

// Parsers for tests with handmade messages, because not every kernel and tool supports all
// attributes.

var FickleSelector = perPacketSelector

// RouteOf, NexthopOf and NeighbourOf return the unproven attribute in a message.
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

// OuterOf returns why the outer headers of a tunnel differ between packets.
func OuterOf(attributes []byte) (why string, err error) {
	_, why, err = parseVXLANHeader(attributes)
	return why, err
}

// LinkOf returns the unproven attribute in a message about a device.
func LinkOf(message []byte) (reason string, err error) {
	_, reason, err = auditLink(message)
	return reason, err
}

// FilterOf returns the kind of a filter, and an unproven action of it.
func FilterOf(message []byte) (kind, action string) {
	f := readFilter(message)
	return f.kind, f.action
}
