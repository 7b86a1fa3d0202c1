package readers

import (
	"github.com/venturi-net/venturi/internal/fastpath/allowlist"
	"github.com/venturi-net/venturi/internal/nlmsg"
)

// Numbers of options of cake.
const (
	cakeNAT    = 11 // whether it shares by the addresses in packets' conntrack entries
	cakeFWMark = 18 // the bits of a packet's mark that choose its tin
)

// provenOptions are the options of the queueing disciplines of which some read more than a packet and its priority.
// Those of red that are left out are blocks of filters for packets that it drops or marks.
var provenOptions = map[string]provenKind{
	"cake": {attrs: queueAttrs("cake", allowlist.NamesFrom(1, "pad", "rate", "diffserv", "atm", "flow mode", "overhead",
		"rtt", "target", "autorate", "memory", "nat", "raw", "wash", "mpu", "ingress", "ack filter", "split gso",
		"fwmark"))},
	"red": {
		attrs:   queueAttrs("red", allowlist.NamesFrom(1, "parameters", "table", "probability", "flags")),
		refused: map[uint16]string{5: "qevent early_drop", 6: "qevent mark"},
	},
}

func queueAttrs(kind string, names map[uint16]string) allowlist.Attrs {
	return allowlist.Attrs{Object: "the queueing discipline " + kind, Names: names, Test: "TestQueueOptions"}
}

// QueueOptions says whether a queueing discipline goes by marks, whatever filters it has, and names an option of it by
// which it may tell packets of the fast path from others otherwise; "": there is none.
func QueueOptions(kind string, options []byte) (byMarks bool, unproven string) {
	proven, ok := provenOptions[kind]
	if !ok {
		return false, ""
	}
	list, err := nlmsg.AppendAttrs(nil, options)
	if err != nil {
		return false, "options that cannot be read"
	}
	set := func(number uint16) bool { return kind == "cake" && nlmsg.NativeUint32(nlmsg.Find(list, number)) != 0 }
	unproven = proven.firstRefused(list)
	if unproven == "" && set(cakeNAT) {
		unproven = "nat"
	}
	return set(cakeFWMark), unproven
}
