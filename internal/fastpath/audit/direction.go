package audit

// Direction of a device, as the machine sees it.
type Direction uint8

// In is where packets come in by the device, Out where they are sent by it.
const (
	Ingress Direction = 1 << iota
	Egress
)
