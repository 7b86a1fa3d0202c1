package path_test

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/venturi-net/venturi/internal/lab"
)

// reader writes frames of an arm down as text, with names for addresses.
type reader struct {
	names       map[netip.Addr]string
	outerOffset int // blocks of outer addresses of other arms
}

// outerRange is the range of tunnels' addresses: a block for each arm on each
// machine.
var outerRange = netip.MustParsePrefix("10.222.0.0/16")

const outsideBlock = 64 // addresses

func newReader(l *lab.Lab, index int) reader {
	r := reader{names: map[netip.Addr]string{}, outerOffset: index * len(l.Machines)}
	for i, m := range l.Machines {
		for k, end := range l.Arms[index].Ends[i] {
			r.names[end.Addr] = fmt.Sprintf("%s.pod%d", m.Name, k+1)
		}
		r.names[m.Addr] = m.Name // also where it is the machine that talks
	}
	return r
}

// name gives m1 for a machine, m1.pod2 for its second pod, m1.t2 for the outer
// address of its second tunnel, and any other address as it is.
func (r reader) name(ip net.IP) string {
	addr, _ := netip.AddrFromSlice(ip)
	if name, ok := r.names[addr]; ok {
		return name
	}
	if outerRange.Contains(addr) {
		b := addr.As4()
		n := int(b[2])<<8 + int(b[3])
		return fmt.Sprintf("m%d.t%d", n/outsideBlock-r.outerOffset+1, n%outsideBlock)
	}
	return addr.String()
}

// read writes a frame down layer by layer, down to the payload of the innermost
// UDP, which it also gives:
//
//	eth ip(m1>m2 ttl64) udp(8472 sum) vxlan(1) eth ip(m1.pod1>m2.pod1 df ttl63) udp(sum)
//
// Checksums are computed: sum is a right one, badsum a wrong one, nosum none.
// A UDP port is that of the destination, and is there only when it is a
// tunnel's. A tag is 8100(vid) or 88a8(vid). Behind a Geneve's VNI stand its
// options, class:type:bytes. What cannot be read ends the text.
func (r reader) read(frame []byte) (text string, payload []byte) {
	var said []string
	var kind layers.EthernetType // of what follows an Ethernet header or a tag
	var ip layers.IPv4
	next, left := gopacket.LayerType(layers.LayerTypeEthernet), frame
	for next != gopacket.LayerTypeZero {
		var word string
		var err error
		switch next {
		case layers.LayerTypeEthernet:
			var l layers.Ethernet
			err = l.DecodeFromBytes(left, gopacket.NilDecodeFeedback)
			word, next, left, kind = "eth", l.EthernetType.LayerType(), l.Payload, l.EthernetType
		case layers.LayerTypeDot1Q:
			var l layers.Dot1Q
			err = l.DecodeFromBytes(left, gopacket.NilDecodeFeedback)
			word = fmt.Sprintf("%04x(%d)", uint16(kind), l.VLANIdentifier)
			next, left, kind = l.Type.LayerType(), l.Payload, l.Type
		case layers.LayerTypeIPv4:
			ip = layers.IPv4{}
			err = ip.DecodeFromBytes(left, gopacket.NilDecodeFeedback)
			word, next, left = r.ip(&ip), ip.NextLayerType(), ip.Payload
		case layers.LayerTypeUDP:
			var l layers.UDP
			err = l.DecodeFromBytes(left, gopacket.NilDecodeFeedback)
			word, next, left = udp(&l, &ip), tunnel(l.DstPort), l.Payload
		case layers.LayerTypeVXLAN:
			var l layers.VXLAN
			err = l.DecodeFromBytes(left, gopacket.NilDecodeFeedback)
			word, next, left = fmt.Sprintf("vxlan(%d)", l.VNI), layers.LayerTypeEthernet, l.Payload
		case layers.LayerTypeGeneve:
			var l layers.Geneve
			err = l.DecodeFromBytes(left, gopacket.NilDecodeFeedback)
			word, next, left = geneve(&l), layers.LayerTypeEthernet, l.Payload
		case layers.LayerTypeGRE:
			var l layers.GRE
			err = l.DecodeFromBytes(left, gopacket.NilDecodeFeedback)
			word, next, left = gre(&l), l.NextLayerType(), l.Payload
		default:
			word, next = next.String(), gopacket.LayerTypeZero
		}
		if err != nil {
			return strings.Join(append(said, err.Error()), " "), nil
		}
		said = append(said, word)
	}
	return strings.Join(said, " "), left
}

// firstEphemeral is the first of the ports that sockets are dealt: those below are
// tunnels'.
const firstEphemeral = 32768

// genevePort and the next ones are Geneve's, of which every path has its own;
// all other tunnels are VXLAN.
const genevePort, genevePorts = 6081, 16

func tunnel(port layers.UDPPort) gopacket.LayerType {
	switch {
	case port >= firstEphemeral:
		return gopacket.LayerTypeZero
	case port >= genevePort && port < genevePort+genevePorts:
		return layers.LayerTypeGeneve
	}
	return layers.LayerTypeVXLAN
}

func (r reader) ip(l *layers.IPv4) string {
	text := r.name(l.SrcIP) + ">" + r.name(l.DstIP)
	if l.Flags&layers.IPv4DontFragment != 0 {
		text += " df"
	}
	if l.Flags&layers.IPv4MoreFragments != 0 || l.FragOffset != 0 {
		text += " cut"
	}
	text += fmt.Sprintf(" ttl%d", l.TTL)
	if l.TOS != 0 {
		text += fmt.Sprintf(" tos%d", l.TOS)
	}
	if _, sum := l.VerifyChecksum(); !sum.Valid {
		text += " badsum"
	}
	return "ip(" + text + ")"
}

func udp(l *layers.UDP, ip *layers.IPv4) string {
	text := ""
	if l.DstPort < firstEphemeral {
		text = fmt.Sprintf("%d ", l.DstPort)
	}
	_ = l.SetNetworkLayerForChecksum(ip)
	_, sum := l.VerifyChecksum()
	switch {
	case l.Checksum == 0:
		text += "nosum"
	case sum.Valid:
		text += "sum"
	default:
		text += "badsum"
	}
	return "udp(" + text + ")"
}

func geneve(l *layers.Geneve) string {
	text := fmt.Sprint(l.VNI)
	for _, o := range l.Options {
		text += fmt.Sprintf(" %04x:%02x:%d", o.Class, o.Type, len(o.Data))
	}
	return "geneve(" + text + ")"
}

// gre gives the key, if there is one, and of the checksum what it is.
func gre(l *layers.GRE) string {
	var said []string
	if l.KeyPresent {
		said = append(said, fmt.Sprint(l.Key))
	}
	switch _, sum := l.VerifyChecksum(); {
	case !l.ChecksumPresent:
	case sum.Valid:
		said = append(said, "sum")
	default:
		said = append(said, "badsum")
	}
	if said == nil {
		return "gre"
	}
	return "gre(" + strings.Join(said, " ") + ")"
}

// mirror turns the text of a frame around: what goes from m1 to m2 becomes what
// comes back.
func mirror(text string) string { return strings.NewReplacer("m1", "m2", "m2", "m1").Replace(text) }

// find writes down those of the frames that carry the payload.
func (r reader) find(frames [][]byte, payload []byte) (texts []string) {
	for _, f := range frames {
		if text, got := r.read(f); bytes.Equal(got, payload) {
			texts = append(texts, fmt.Sprintf("%s %d bytes", text, len(f)))
		}
	}
	return texts
}
