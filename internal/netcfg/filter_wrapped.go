package netcfg

import (
	"github.com/google/nftables/expr"
	"github.com/google/nftables/xt"
)

// wrappedDNAT is XT_CONNTRACK_STATE_DNAT: to iptables a translated destination is
// one more state. The others have the bits that nftables gives them.
const wrappedDNAT = 1 << 7

// Comment says what a rule is for. It matches every packet, and is written only
// where iptables-nft would call an extension for it.
func Comment(text string) Clause {
	comment := xt.Comment(text)
	return newMatch().iptablesForm(&expr.Match{Name: "comment", Info: &comment})
}

// iptablesForm gives a clause the form that iptables-nft writes.
func (c Clause) iptablesForm(wrapped ...expr.Any) Clause {
	c.wrapped = wrapped
	return c
}

// wrappedState is -m conntrack [!] --ctstate.
func wrappedState(states uint16, not bool) expr.Any {
	any4 := make([]byte, 4) // the library wants addresses, though none is looked at
	info := &xt.ConntrackMtinfo3{ConntrackMtinfo2: xt.ConntrackMtinfo2{
		ConntrackMtinfoBase: xt.ConntrackMtinfoBase{
			OrigSrcAddr: any4, OrigSrcMask: any4, OrigDstAddr: any4, OrigDstMask: any4,
			ReplSrcAddr: any4, ReplSrcMask: any4, ReplDstAddr: any4, ReplDstMask: any4,
			MatchFlags: uint16(xt.ConntrackState),
		},
		StateMask: states,
	}}
	if not {
		info.InvertFlags = uint16(xt.ConntrackState)
	}
	return &expr.Match{Name: "conntrack", Rev: 3, Info: info}
}
