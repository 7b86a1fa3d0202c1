package shadow

// layout is where the fields of a pod's IP header are, in bytes.
type layout struct {
	header   int // its length
	total    int // offset of the length of the packet
	before   int // what that does not count
	protocol int // offset
	addrs    int // offset of the addresses, which the ports follow
	addr     int // length of each
}

var (
	layout4 = layout{header: ipLen, total: ipTotal, protocol: ipProtocol, addrs: ipAddrs, addr: 4}
	layout6 = layout{header: 40, total: 4, before: 40, protocol: 6, addrs: 8, addr: 16}
)

// layout is that of the pod's IP header.
func (p *packet) layout() layout {
	if p.isIPv6() {
		return layout6
	}
	return layout4
}

func (p *packet) isIPv6() bool { return p.ip < len(p.bytes) && p.bytes[p.ip]>>4 == 6 }
