package host

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// ruling is what a rule means to the packets of an established flow.
type ruling struct {
	fickle  string   // what makes it judge them by more than what all of them share
	reply   string   // by what it tells packets of before the first answer from those of after; of [rulings.unreplied] ones
	others  bool     // it is for none of them
	certain bool     // it is for all of them
	marks   bool     // it gives packets marks
	tunnel  bool     // it is for packets to a tunnel's port
	verdict string   // as of [FilterRule]
	to      []string // chains that it may lead to
}

// Names of what is known to differ between packets of one flow, or to change while it
// goes on. All else that is not [Proven] is refused by its number.
var (
	fickleMeta = map[int]string{unix.NFT_META_LEN: "meta length", unix.NFT_META_CPU: "meta cpu", unix.NFT_META_PRANDOM: "meta random",
		unix.NFT_META_PRIORITY: "meta priority", metaTime: "meta time", metaTime + 1: "meta day", metaTime + 2: "meta hour"}
	// Marks and labels of a connection can be changed from outside while it goes on.
	fickleTrack = map[int]string{unix.NFT_CT_MARK: "ct mark", unix.NFT_CT_LABELS: "ct label", unix.NFT_CT_EXPIRATION: "ct expiration", unix.NFT_CT_PKTS: "ct packets", unix.NFT_CT_BYTES: "ct bytes", unix.NFT_CT_AVGPKT: "ct avgpkt"}
	// replyTrack tells an answer from what is answered, or whether there was one.
	replyTrack = map[int]string{unix.NFT_CT_STATUS: "ct status", unix.NFT_CT_DIRECTION: "ct direction"}
)

const (
	metaTime   = 30 // NFT_META_TIME_NS; day and hour follow
	verdictReg = 0  // NFT_REG_VERDICT

	// struct xt_conntrack_mtinfo1, flags
	trackStatus    = 1 << 6
	trackExpire    = 1 << 7
	trackDirection = 1 << 12

	stateRelated   = 1 << 2 // as stateNew
	statusLasting  = 0x21bb // IPS_*: those that a connection has from its first answer on, or never
	stateUntracked = 1 << 6
)

func set(names ...string) map[string]bool {
	all := map[string]bool{}
	for _, n := range names {
		all[n] = true
	}
	return all
}

// loaded is what of a packet was read last, and will be compared.
type loaded uint8

const (
	something loaded = iota
	trackState
	trackStatusBits
	etherType // meta protocol, or of the frame
	netProtocol
	transport
	targetPort
)

// rulingReader goes through the expressions of a rule.
type rulingReader struct {
	*rulings
	ruling
	chain  chainName
	last   loaded
	in     int // register that it was read into
	mask   uint32
	tcp    bool     // it is for nothing but TCP
	part   *varying // what was read last, if that is such
	unread bool     // nothing has been done with it
}

// read reads a rule.
func (r *rulings) read(c chainName, message []byte) (ruling, error) {
	attrs, _, err := filterAttrs(message)
	if err != nil {
		return ruling{}, err
	}
	rule := rulingReader{rulings: r, chain: c, ruling: ruling{certain: true, fickle: provenRule.unproven(attrs)}}
	elems, err := nl.ParseRouteAttr(dataOf(attrs)[unix.NFTA_RULE_EXPRESSIONS])
	if err != nil {
		return ruling{}, err
	}
	for _, e := range elems {
		name, data, err := expressionData(e.Value)
		if err == nil {
			err = rule.expression(name, data)
		}
		if err != nil {
			return ruling{}, err
		}
	}
	return rule.ruling, nil
}

func (r *rulingReader) expression(name string, data exprData) error {
	if why := unprovenExpression(name, data); why != "" {
		r.fickle = why
	}
	from, reads := sourceOf(name, data)
	if reads && from != r.in {
		r.stale() // what is read now is of before
	}
	if !reads {
		if r.unread {
			r.fickle = r.part.name // it goes into something larger
		}
		r.part, r.unread = nil, false
		if r.last == trackState {
			r.asks("ct state") // so does that
		}
	}
	if r.last == trackStatusBits && name != "bitwise" {
		r.fickle = "ct status"
	}
	if into, ok := targetOf(name, data); ok {
		r.in = into
	}
	switch name {
	case "immediate":
		if value, err := nl.ParseRouteAttr(data[unix.NFTA_IMMEDIATE_DATA]); err == nil && data.number(unix.NFTA_IMMEDIATE_DREG) == verdictReg {
			var to string
			known := false
			if r.verdict, to, known = verdictOf(dataOf(value)[unix.NFTA_DATA_VERDICT]); to != "" {
				r.to = append(r.to, to)
			}
			if !known {
				r.fickle = "a verdict that is not known"
			}
		}
	case "notrack", "reject":
		r.verdict = map[string]string{"notrack": "notrack", "reject": "drop"}[name]
	case "meta":
		r.meta(data)
	case "ct":
		r.ct(data)
	case "payload":
		r.payload(data)
	case "bitwise":
		r.bitwise(data)
	case "cmp":
		value, op := data.nested(unix.NFTA_CMP_DATA), data.number(unix.NFTA_CMP_OP)
		switch {
		case r.part != nil:
			r.comparePart(value, op)
		case op == unix.NFT_CMP_EQ || op == unix.NFT_CMP_NEQ:
			r.compare(value, op == unix.NFT_CMP_EQ)
		default: // which is greater
			if r.last == trackState {
				r.asks("ct state")
			}
			r.last, r.certain = something, false
		}
	case "rt":
		if key := data.number(unix.NFTA_RT_KEY); provenRoute[key] == "" {
			r.fickle = cmp.Or(map[int]string{unix.NFT_RT_TCPMSS: "rt mtu"}[key], fmt.Sprintf("rt key %d", key))
		}
		r.last, r.certain = something, false
	case "range", "fib", "hash", "xfrm", "osf", "byteorder":
		r.last, r.certain = something, false
	case "lookup":
		return r.lookup(data)
	case "objref":
		if kind := data.number(unix.NFTA_OBJREF_IMM_TYPE); provenObjects[kind] == "" {
			r.fickle = "named object of type " + fmt.Sprint(kind)
		}
	case "exthdr":
		r.last, r.certain = something, false
		// Of IP, carried packets have no options; a tunnel's have none of TCP.
		switch option := data.number(unix.NFTA_EXTHDR_OP) == unix.NFT_EXTHDR_OP_TCPOPT; {
		case option && r.chain.outer:
		case !data.has(unix.NFTA_EXTHDR_DREG):
			r.fickle = "writes packets"
		case option:
			r.fickle = "tcp option"
		}
	case "match":
		r.match(data)
	case "target":
		r.target(data)
	}
	return nil
}

// stale notes that something is compared that was read before what was read last.
func (r *rulingReader) stale() {
	if r.part != nil {
		r.fickle = r.part.name
	}
	if r.last == trackState {
		r.asks("ct state")
	}
	if r.last == trackStatusBits {
		r.fickle = "ct status"
	}
	r.last, r.part, r.unread, r.certain = something, nil, false, false
}

// bitwise notes what becomes of what was read.
func (r *rulingReader) bitwise(data exprData) {
	if r.part != nil {
		r.maskPart(data)
		return
	}
	mask, xor := data.nested(unix.NFTA_BITWISE_MASK), data.nested(unix.NFTA_BITWISE_XOR)
	masks := data.number(bitwiseOp) <= 0 && len(mask) >= 4 && bytes.Count(xor, []byte{0}) == len(xor)
	if r.last == trackState && masks {
		r.mask &= binary.NativeEndian.Uint32(mask)
		return
	}
	switch {
	case r.last == trackState:
		r.asks("ct state")
	case r.last == trackStatusBits && (!masks || binary.NativeEndian.Uint32(mask)&^statusLasting != 0):
		r.fickle = "ct status"
	}
	r.last, r.certain = something, false
}

// asks notes that the rule may tell packets of before the first answer from others.
func (r *rulingReader) asks(by string) {
	if r.unreplied {
		r.reply = by
	}
}

func (r *rulingReader) meta(data exprData) {
	key := data.number(unix.NFTA_META_KEY)
	written, proven := data.has(unix.NFTA_META_SREG), provenMeta
	if written {
		proven = provenMetaWrites
	}
	if proven[key] == "" {
		r.fickle = cmp.Or(fickleMeta[key], fmt.Sprintf("meta key %d", key))
	}
	if written {
		r.marks = r.marks || key == unix.NFT_META_MARK
		return
	}
	r.last = map[int]loaded{unix.NFT_META_PROTOCOL: etherType, unix.NFT_META_NFPROTO: netProtocol, unix.NFT_META_L4PROTO: transport}[key]
	if r.last == something {
		r.certain = false
	}
}

func (r *rulingReader) ct(data exprData) {
	key := data.number(unix.NFTA_CT_KEY)
	written := data.has(unix.NFTA_CT_SREG)
	proven := provenTrack
	if written {
		proven = provenTrackWrites
	}
	if proven[key] == "" {
		r.fickle = cmp.Or(fickleTrack[key], fmt.Sprintf("ct key %d", key))
	}
	switch {
	case written:
	case key == unix.NFT_CT_STATE && !r.stateless:
		r.last, r.mask = trackState, ^uint32(0)
	default:
		if name := replyTrack[key]; name != "" {
			r.asks(name)
		}
		if r.last, r.certain = something, false; key == unix.NFT_CT_STATUS {
			r.last = trackStatusBits
		}
	}
}

// Of IPv4, TCP and UDP headers, what all packets of a flow have in common, or of which
// is known what carried packets have there; that of IPv6 is not looked at by rules for
// IPv4.
func (r *rulingReader) payload(data exprData) {
	at, size := data.number(unix.NFTA_PAYLOAD_OFFSET), data.number(unix.NFTA_PAYLOAD_LEN)
	if data.has(unix.NFTA_PAYLOAD_SREG) {
		r.fickle = "writes packets"
		return
	}
	r.last = something
	shared := false
	switch data.number(unix.NFTA_PAYLOAD_BASE) {
	case unix.NFT_PAYLOAD_LL_HEADER:
		shared = true
		if at == 12 && size == 2 {
			r.last = etherType
		}
	case unix.NFT_PAYLOAD_NETWORK_HEADER:
		// Version, protocol and addresses.
		shared = at == 0 && size == 1 || at == 9 && size == 1 || at >= 12 && at+size <= 20
		switch {
		case at == 9 && size == 1:
			r.last = transport
		case at == fragment && (size == 1 || size == 2):
			r.part = carriedFragment(size)
		}
	case unix.NFT_PAYLOAD_TRANSPORT_HEADER:
		shared = at+size <= 4 // ports
		switch {
		case at == 2 && size == 2:
			r.last = targetPort
		case at == flagsTCP && size == 1 && r.tcp:
			r.part = carriedFlags()
		}
	}
	if r.unread = r.part != nil; !shared && !r.unread {
		r.fickle = fmt.Sprintf("bytes %d to %d of a header", at, at+size-1)
	}
	if r.last != transport && r.last != etherType && !(r.last == targetPort && r.chain.outer) {
		r.certain = false
	}
}

// compare judges whom a comparison lets pass.
func (r *rulingReader) compare(value []byte, equal bool) {
	last := r.last
	r.last = something
	number := func(size int) int {
		if len(value) < size {
			return -1
		}
		return int(binary.BigEndian.Uint16(append(make([]byte, 2-size), value[:size]...)))
	}
	switch last {
	case something:
		r.certain = false
	case trackState:
		if len(value) >= 4 {
			with := binary.NativeEndian.Uint32(value)
			r.among(func(state uint32) bool { return r.mask&state == with == equal })
		}
	case etherType:
		r.others = r.others || equal == (number(2) != unix.ETH_P_IP)
	case netProtocol:
		r.others = r.others || equal == (number(1) != unix.NFPROTO_IPV4)
	case transport:
		p := number(1)
		r.tcp = r.tcp || equal && p == unix.IPPROTO_TCP
		if r.chain.outer {
			r.others = r.others || equal != (p == unix.IPPROTO_UDP)
			return
		}
		carried := p == unix.IPPROTO_UDP || p == unix.IPPROTO_TCP
		r.others = r.others || equal && !carried
		r.certain = r.certain && !equal && !carried
	case targetPort:
		r.tunnel = equal && number(2) == int(r.port)
		r.others = r.others || equal && r.chain.outer && !r.tunnel
		r.certain = r.certain && equal
	}
}

// states are those that packets may be in. Of a tunnel's, nobody answers one: what
// comes back has other ports. So each is taken for the first of a connection, unless
// they happen to have the same ports, or are not tracked.
func (r *rulingReader) states() []uint32 {
	if r.chain.outer {
		return []uint32{stateNew, stateEstablished, stateUntracked}
	}
	if r.unreplied {
		return []uint32{stateNew}
	}
	return []uint32{stateEstablished}
}

// among judges a rule that lets packets pass in some states of their connections. Of
// one that is yet to be answered, they may be in several by and by.
func (r *rulingReader) among(passes func(state uint32) bool) {
	if r.unreplied && !r.chain.outer {
		if some, all := split([]uint32{stateNew, stateRelated, stateEstablished}, passes); some && !all {
			r.asks("ct state")
			r.certain = false
			return
		}
	}
	some, all := split(r.states(), passes)
	r.others, r.certain = r.others || !some, r.certain && all
}
