package audit

// Direction is a direction of a device, as the host sees it.
type Direction uint8

// Ingress is where packets arrive by the device, Egress where they are sent by it.
const (
	Ingress Direction = 1 << iota
	Egress
)
