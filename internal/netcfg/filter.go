package netcfg

import (
	"encoding/binary"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/nft/match"
)

// Table is an IPv4 table of the packet filter. Its clauses are written in
// nftables' own expressions or, Wrapped, as iptables-nft writes them: what is an
// extension of iptables stands in the kernel's wrapper of extensions, which takes
// a packet longer to pass. A kernel need not have those.
type Table struct {
	Name    string
	Wrapped bool
	Chains  []Chain
}

// Chain is a chain of a Table. Packets enter one with a hook by themselves,
// others by a jump.
type Chain struct {
	Name  string
	Hook  *Hook
	Rules []Rule
}

// Hook is a place where packets enter a table.
type Hook struct {
	kind     nftables.ChainType
	number   *nftables.ChainHook
	priority *nftables.ChainPriority
}

// The hooks, at the priorities that iptables gives to its tables.
var (
	FilterInput    = &Hook{nftables.ChainTypeFilter, nftables.ChainHookInput, nftables.ChainPriorityFilter}
	FilterForward  = &Hook{nftables.ChainTypeFilter, nftables.ChainHookForward, nftables.ChainPriorityFilter}
	FilterOutput   = &Hook{nftables.ChainTypeFilter, nftables.ChainHookOutput, nftables.ChainPriorityFilter}
	NATPrerouting  = &Hook{nftables.ChainTypeNAT, nftables.ChainHookPrerouting, nftables.ChainPriorityNATDest}
	NATOutput      = &Hook{nftables.ChainTypeNAT, nftables.ChainHookOutput, nftables.ChainPriorityNATDest}
	NATPostrouting = &Hook{nftables.ChainTypeNAT, nftables.ChainHookPostrouting, nftables.ChainPriorityNATSource}
)

// Rule is a list of clauses: matches that must all hold, then actions. A
// counter counts what the matches let through, as iptables counts.
type Rule []Clause

// Clause is one match or one action.
type Clause struct {
	action  bool
	exprs   []expr.Any
	wrapped []expr.Any // nil where iptables-nft writes the same
}

// register is the one that matches and actions use.
const register = match.Register

// TCP matches the protocol.
func TCP() Clause {
	return newMatch(match.TCP()...)
}

// UDP does the same.
func UDP() Clause {
	return newMatch(match.UDP()...)
}

// Dport matches the destination port; the rule must match the protocol before.
func Dport(port uint16) Clause {
	return newMatch(match.Dport(port)...)
}

// Src matches packets from a prefix of whole bytes, NotSrc all others.
func Src(p netip.Prefix) Clause    { return address(12, p, expr.CmpOpEq) }
func NotSrc(p netip.Prefix) Clause { return address(12, p, expr.CmpOpNeq) }

// Dst matches packets to a prefix of whole bytes.
func Dst(p netip.Prefix) Clause { return address(16, p, expr.CmpOpEq) }

func address(offset uint32, p netip.Prefix, op expr.CmpOp) Clause {
	n := p.Bits() / 8
	return newMatch(
		&expr.Payload{DestRegister: register, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: uint32(n)},
		&expr.Cmp{Register: register, Op: op, Data: p.Addr().AsSlice()[:n]})
}

// ConnStates is a set of states of a connection.
type ConnStates uint32

// The states.
const (
	Invalid     = ConnStates(expr.CtStateBitINVALID)
	Established = ConnStates(expr.CtStateBitESTABLISHED)
	Related     = ConnStates(expr.CtStateBitRELATED)
	New         = ConnStates(expr.CtStateBitNEW)
)

// InState matches packets of connections in one of the states, NotInState
// those of others.
func InState(s ConnStates) Clause    { return conntrack(expr.CtKeySTATE, uint32(s), uint16(s), false) }
func NotInState(s ConnStates) Clause { return conntrack(expr.CtKeySTATE, uint32(s), uint16(s), true) }

// statusDNAT is IPS_DST_NAT: the connection's destination is translated.
const statusDNAT = 1 << 5

// NotTranslated matches packets of connections whose destination is not
// translated.
func NotTranslated() Clause { return conntrack(expr.CtKeySTATUS, statusDNAT, wrappedDNAT, true) }

// conntrack matches connections that have one of the bits, or none; to iptables
// these are states.
func conntrack(key expr.CtKey, bits uint32, states uint16, none bool) Clause {
	compareWithZero := expr.CmpOpNeq
	if none {
		compareWithZero = expr.CmpOpEq
	}
	return newMatch(&expr.Ct{Key: key, Register: register}, and(bits, 0),
		&expr.Cmp{Register: register, Op: compareWithZero, Data: make([]byte, 4)}).iptablesForm(wrappedState(states, none))
}

// Marked matches packets that carry all bits of mark, NotMarked the others.
func Marked(mark uint32) Clause    { return marked(mark, expr.CmpOpEq) }
func NotMarked(mark uint32) Clause { return marked(mark, expr.CmpOpNeq) }

func marked(mark uint32, op expr.CmpOp) Clause {
	return newMatch(&expr.Meta{Key: expr.MetaKeyMARK, Register: register}, and(mark, 0),
		&expr.Cmp{Register: register, Op: op, Data: binaryutil.NativeEndian.PutUint32(mark)})
}

// ToLocal matches packets whose destination is an address of the machine.
func ToLocal() Clause {
	return newMatch(&expr.Fib{Register: register, ResultADDRTYPE: true, FlagDADDR: true},
		match.Equal(binaryutil.NativeEndian.PutUint32(unix.RTN_LOCAL)))
}

// Jump goes on in another chain and comes back.
func Jump(chain string) Clause { return verdict(expr.VerdictJump, chain) }

// Accept, Drop and Return end the way through the chain.
func Accept() Clause { return verdict(expr.VerdictAccept, "") }
func Drop() Clause   { return verdict(expr.VerdictDrop, "") }
func Return() Clause { return verdict(expr.VerdictReturn, "") }

func verdict(kind expr.VerdictKind, chain string) Clause {
	return act(&expr.Verdict{Kind: kind, Chain: chain})
}

// SetMark sets bits of the packet's mark, FlipMark flips them.
func SetMark(bits uint32) Clause  { return remark(and(^bits, bits)) }
func FlipMark(bits uint32) Clause { return remark(and(^uint32(0), bits)) }

func remark(change *expr.Bitwise) Clause {
	return act(&expr.Meta{Key: expr.MetaKeyMARK, Register: register}, change,
		&expr.Meta{Key: expr.MetaKeyMARK, Register: register, SourceRegister: true})
}

// DNAT sends the connection to another address and port.
func DNAT(to netip.AddrPort) Clause {
	return act(
		&expr.Immediate{Register: 1, Data: to.Addr().AsSlice()},
		&expr.Immediate{Register: 2, Data: binary.BigEndian.AppendUint16(nil, to.Port())},
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: 1, RegProtoMin: 2})
}

// Masquerade gives the connection the machine's address and a random port.
func Masquerade() Clause { return act(&expr.Masq{FullyRandom: true}) }

func newMatch(exprs ...expr.Any) Clause { return Clause{exprs: exprs} }
func act(exprs ...expr.Any) Clause      { return Clause{action: true, exprs: exprs} }

// and makes the register (register & mask) ^ xor.
func and(mask, xor uint32) *expr.Bitwise {
	return &expr.Bitwise{
		SourceRegister: register, DestRegister: register, Len: 4,
		Mask: binaryutil.NativeEndian.PutUint32(mask), Xor: binaryutil.NativeEndian.PutUint32(xor),
	}
}

// expressions puts the counter where iptables has it: between the matches and
// the first action.
func (r Rule) expressions(wrapped bool) []expr.Any {
	var list []expr.Any
	counted := false
	for _, c := range r {
		if c.action && !counted {
			list, counted = append(list, &expr.Counter{}), true
		}
		if wrapped && c.wrapped != nil {
			list = append(list, c.wrapped...)
		} else {
			list = append(list, c.exprs...)
		}
	}
	if !counted {
		list = append(list, &expr.Counter{})
	}
	return list
}
