package audit

import (
	"cmp"
	"encoding/binary"
	"fmt"

	"github.com/venturi-net/venturi/internal/nlmsg"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// expression is what is known of a kind of expression.
type expression struct {
	attrs    uint16 // number of its known attributes, which are numbered from 1
	evaluate func(e *exprEvaluator, data nlmsg.Map)
	source   uint16 // attribute with the register that it compares; 0: none
	target   uint16 // attribute with the register that it writes; 0: none
	acts     bool   // it does something to packets or connections, and nothing else
	keeps    bool   // it keeps account of what registers are known to hold, or leaves them alone
}

// provenExpressions are the rule expressions that treat all packets of a flow alike, as far as their
// evaluation does not find otherwise. Those without one match, or act, in the same way always.
var provenExpressions = map[string]expression{
	"immediate": {attrs: 2, evaluate: (*exprEvaluator).immediate, keeps: true},
	"bitwise":   {attrs: 7, evaluate: (*exprEvaluator).bitwise, source: unix.NFTA_BITWISE_SREG, target: unix.NFTA_BITWISE_DREG, keeps: true},
	"byteorder": {attrs: 5, evaluate: (*exprEvaluator).derive, target: unix.NFTA_BYTEORDER_DREG},
	"cmp":       {attrs: 3, evaluate: (*exprEvaluator).cmp, source: unix.NFTA_CMP_SREG, keeps: true},
	"range":     {attrs: 4, evaluate: (*exprEvaluator).derive},
	"lookup":    {attrs: 5, evaluate: (*exprEvaluator).lookup, source: unix.NFTA_LOOKUP_SREG},
	"payload":   {attrs: 8, evaluate: (*exprEvaluator).payload, target: unix.NFTA_PAYLOAD_DREG},
	"exthdr":    {attrs: 7, evaluate: (*exprEvaluator).exthdr, target: unix.NFTA_EXTHDR_DREG},
	"meta":      {attrs: 3, evaluate: (*exprEvaluator).meta, target: unix.NFTA_META_DREG, keeps: true},
	"ct":        {attrs: 4, evaluate: (*exprEvaluator).ct, target: unix.NFTA_CT_DREG, keeps: true},
	"counter":   {attrs: 3, evaluate: (*exprEvaluator).countAt, keeps: true},
	"log":       {attrs: 6, evaluate: (*exprEvaluator).log, keeps: true},
	"last":      {attrs: 3, evaluate: (*exprEvaluator).log, keeps: true},
	"fib":       {attrs: 3, evaluate: (*exprEvaluator).fib, target: unix.NFTA_FIB_DREG},
	"rt":        {attrs: 2, evaluate: (*exprEvaluator).rt, target: unix.NFTA_RT_DREG},
	"hash":      {attrs: 7, evaluate: (*exprEvaluator).hash, target: unix.NFTA_HASH_DREG},
	"xfrm":      {attrs: 4, evaluate: (*exprEvaluator).derive, target: 1}, // NFTA_XFRM_DREG
	"osf":       {attrs: 3, evaluate: (*exprEvaluator).derive, target: 1}, // NFTA_OSF_DREG
	"reject":    {attrs: 2, evaluate: (*exprEvaluator).reject},
	"notrack":   {attrs: 0, evaluate: (*exprEvaluator).notrack, acts: true},
	"nat":       {attrs: 7, acts: true},
	"masq":      {attrs: 3, acts: true},
	"redir":     {attrs: 3, acts: true},
	"objref":    {attrs: 2, evaluate: (*exprEvaluator).objref},
	"match":     {attrs: 3, evaluate: (*exprEvaluator).match},
	"target":    {attrs: 3, evaluate: (*exprEvaluator).target},
}

// unprovenAttribute names an attribute of an expression that is not known; "": there is none.
func (e expression) unprovenAttribute(name string, data nlmsg.Map) string {
	for number := range data {
		if number == 0 || number > e.attrs {
			return fmt.Sprintf("attribute %d of expression %s", number, name)
		}
	}
	return ""
}

func (e *exprEvaluator) expression(name string, data nlmsg.Map) {
	expr, proven := provenExpressions[name]
	if perPacketExpressions[name] {
		e.perPacket, e.alwaysMatches = name, false
		e.consume(name)
	} else if !proven {
		e.unproven = name
	} else if why := expr.unprovenAttribute(name, data); why != "" {
		e.unproven = why
	}
	e.acts = e.acts || expr.acts
	if !expr.keeps {
		e.dropValues()
	}
	into, writes := data.BigEndian32(expr.target), expr.target != 0 && data.Has(expr.target)
	e.trackProtocol(name, data, into, writes)
	if expr.source == 0 {
		e.passLoaded()
	} else if data.BigEndian32(expr.source) != e.register {
		e.forgetLoaded() // it compares what was loaded before
	}
	if writes {
		e.register = into
	}
	if expr.evaluate != nil {
		expr.evaluate(e, data)
	}
}

func (e *exprEvaluator) immediate(data nlmsg.Map) {
	into := data.BigEndian32(unix.NFTA_IMMEDIATE_DREG)
	if value := data.DataValue(unix.NFTA_IMMEDIATE_DATA); len(value) == 4 {
		e.values[into] = knownMark(binary.NativeEndian.Uint32(value))
	} else if value != nil {
		e.dropValues()
	}
	value, err := nl.ParseRouteAttr(data[unix.NFTA_IMMEDIATE_DATA])
	if err != nil || into != unix.NFT_REG_VERDICT {
		return
	}
	verdict, to, known := verdictOf(nlmsg.ByNumber(value)[unix.NFTA_DATA_VERDICT])
	e.decide(verdict)
	if to != "" {
		e.targets = append(e.targets, to)
	}
	if !known {
		e.unproven = "a verdict that is not known"
	}
}

// consume records an expression that keeps count of the packets which get there.
func (e *exprEvaluator) consume(name string) {
	if !e.neverMatches {
		e.consumes = name
	}
}

func (e *exprEvaluator) log(nlmsg.Map) { e.logAt() }

func (e *exprEvaluator) notrack(nlmsg.Map) { e.untrack() }

// untrack records that packets which get there are taken from connection tracking.
func (e *exprEvaluator) untrack() {
	e.tunnelOnly = e.udp && e.toPort && (e.tunnelOnly || !e.untracks)
	e.untracks = true
}

func (e *exprEvaluator) reject(nlmsg.Map) { e.decide("drop") }

// decide records a verdict, beside which there may be that of a map.
func (e *exprEvaluator) decide(verdict string) {
	e.verdictMap = e.verdictMap || e.verdict != ""
	e.verdict, e.mayJump = verdict, e.mayJump || verdict == "jump"
}

func (e *exprEvaluator) cmp(data nlmsg.Map) {
	value, op := data.DataValue(unix.NFTA_CMP_DATA), data.BigEndian32(unix.NFTA_CMP_OP)
	mark, isMark := e.values[data.BigEndian32(unix.NFTA_CMP_SREG)]
	switch {
	case isMark:
		e.compareMark(mark, value, op)
	case e.field != nil:
		e.compareField(value, op)
	case op == unix.NFT_CMP_EQ || op == unix.NFT_CMP_NEQ:
		e.compare(value, op == unix.NFT_CMP_EQ)
	default: // greater or less
		e.useLoaded()
		e.derive(nil)
	}
}

// derive records that nothing is known of what the rule goes by from here on.
func (e *exprEvaluator) derive(nlmsg.Map) { e.loaded, e.alwaysMatches = otherField, false }

func (e *exprEvaluator) fib(data nlmsg.Map) {
	if data.BigEndian32(unix.NFTA_FIB_FLAGS)&unix.NFTA_FIB_F_MARK != 0 {
		e.readMark(e.marks.packet)
	}
	e.derive(nil)
}

func (e *exprEvaluator) rt(data nlmsg.Map) {
	if key := data.BigEndian32(unix.NFTA_RT_KEY); provenRoute[key] == "" {
		e.perPacket = cmp.Or(map[int]string{unix.NFT_RT_TCPMSS: "rt mtu"}[key], fmt.Sprintf("rt key %d", key))
	}
	e.derive(nil)
}

func (e *exprEvaluator) objref(data nlmsg.Map) {
	kind := data.BigEndian32(unix.NFTA_OBJREF_IMM_TYPE)
	if provenObjects[kind] == "" {
		e.unproven = "named object of type " + fmt.Sprint(kind)
	}
	e.setsSecmark = e.setsSecmark || kind == unix.NFT_OBJECT_SECMARK
	e.acts = e.acts || kind != unix.NFT_OBJECT_COUNTER
	if kind == unix.NFT_OBJECT_COUNTER {
		e.logAt()
	}
}

// exthdr evaluates options. Packets of the fast path have no IP options or extension headers, and
// packets of a tunnel have no TCP options.
func (e *exprEvaluator) exthdr(data nlmsg.Map) {
	e.derive(nil)
	switch option := data.BigEndian32(unix.NFTA_EXTHDR_OP) == unix.NFT_EXTHDR_OP_TCPOPT; {
	case option && e.chain.outer:
	case !data.Has(unix.NFTA_EXTHDR_DREG):
		e.unproven = "writes packets"
	case option:
		e.perPacket = "tcp option"
	}
}
