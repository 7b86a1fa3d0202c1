package audit

import (
	"github.com/venturi-net/venturi/internal/fastpath/allowlist"
	"golang.org/x/sys/unix"
)

// Allowlist lists everything that is proven to treat all packets of a flow alike.
func Allowlist() []allowlist.Row {
	rows := []allowlist.Row{
		{Kind: "expression of nftables", Names: allowlist.Keys(provenExpressions), Test: "TestRulings"},
		{Kind: "meta key that rules read", Names: allowlist.Names(provenMeta), Test: "TestRulings"},
		{Kind: "meta key that rules write", Names: allowlist.Names(provenMetaWrites), Test: "TestRulingsWriteMarks"},
		{Kind: "ct key that rules read", Names: allowlist.Names(provenTrack), Test: "TestRulings"},
		{Kind: "bit of ct status, of flows with answers", Names: allowlist.Names(provenStatus), Test: "TestRulingsOfStatus"},
		{Kind: "ct key that rules write", Names: allowlist.Names(provenTrackWrites), Test: "TestRulings"},
		{Kind: "rt key that rules read", Names: allowlist.Names(provenRoute), Test: "TestRulings"},
		{Kind: "object of nftables", Names: allowlist.Names(provenObjects), Test: "TestRulings"},
		{Kind: "expression that may match each packet differently, in rules that only count and log", Names: allowlist.Keys(perPacketExpressions), Test: "TestRulingsWithoutEffect"},
		{Kind: "match of iptables that may do so", Names: allowlist.Keys(perPacketMatches), Test: "TestRulingsWithoutEffect"},
		{Kind: "match of iptables", Names: allowlist.Keys(provenMatches), Test: "TestRulingsOfIPTables"},
		{Kind: "target of iptables", Names: allowlist.Keys(provenTargets), Test: "TestRulingsOfIPTables"},
		{Kind: "expression of a set's element", Names: allowlist.Keys(provenElementExpressions), Test: "TestRulingsOfSets"},
		{Kind: "function at a hook of netfilter", Names: allowlist.Keys(harmlessFunctions), Test: "TestHooks"},
	}
	for _, a := range provenAttributes {
		rows = append(rows, allowlist.Row{Kind: "attribute of " + a.Object, Names: allowlist.Names(a.Names), Test: a.Test})
	}
	return rows
}

var (
	provenRule = allowlist.Attrs{Object: "a rule of nftables", Names: allowlist.NamesFrom(1, "table", "chain", "handle", "expressions", "compat", "position", "userdata", "pad", "id", "position id", "chain id"), Test: "TestUnprovenRules"}
	provenSet  = allowlist.Attrs{Object: "a set of nftables", Names: allowlist.NamesFrom(1, "table", "name", "flags", "key type", "key length", "data type", "data length", "policy", "description", "id",
		"", "gc interval", "userdata", "pad", "object type", "handle", "expression", "expressions", "type", "count"), Test: "TestUnprovenSets"}
	provenElement    = allowlist.Attrs{Object: "an element of a set", Names: allowlist.NamesFrom(1, "key", "data", "flags", "", "", "userdata", "expression", "pad", "", "key end", "expressions"), Test: "TestUnprovenSets"}
	provenAttributes = []*allowlist.Attrs{&provenRule, &provenSet, &provenElement}
)

// Expressions that treat packets differently, and do nothing but match: a rule with one is harmless if
// it does no more than count and log what it matches.
var perPacketExpressions = allowlist.NameSet("limit", "quota", "numgen", "connlimit")

// provenElementExpressions are expressions of sets and their elements that decide nothing.
var provenElementExpressions = allowlist.NameSet("counter", "last")

// Keys that are equal for all packets of an established flow.
var (
	provenMeta = map[int]string{
		unix.NFT_META_PROTOCOL: "protocol", unix.NFT_META_MARK: "mark", unix.NFT_META_IIF: "iif", unix.NFT_META_OIF: "oif", unix.NFT_META_IIFNAME: "iifname", unix.NFT_META_OIFNAME: "oifname",
		unix.NFT_META_IIFTYPE: "iiftype", unix.NFT_META_OIFTYPE: "oiftype", unix.NFT_META_SKUID: "skuid", unix.NFT_META_SKGID: "skgid", unix.NFT_META_NFTRACE: "nftrace", unix.NFT_META_RTCLASSID: "rtclassid",
		unix.NFT_META_SECMARK: "secmark", unix.NFT_META_NFPROTO: "nfproto", unix.NFT_META_L4PROTO: "l4proto", unix.NFT_META_BRI_IIFNAME: "ibrname", unix.NFT_META_BRI_OIFNAME: "obrname",
		unix.NFT_META_PKTTYPE: "pkttype", unix.NFT_META_IIFGROUP: "iifgroup", unix.NFT_META_OIFGROUP: "oifgroup", unix.NFT_META_CGROUP: "cgroup", metaSecpath: "secpath", metaSecpath + 1: "iifkind",
		metaSecpath + 2: "oifkind", metaSecpath + 3: "ibrpvid", metaSecpath + 4: "ibrvproto", metaTime + 3: "sdif", metaTime + 4: "sdifname",
	}
	provenMetaWrites = map[int]string{unix.NFT_META_MARK: "mark", unix.NFT_META_NFTRACE: "nftrace", unix.NFT_META_SECMARK: "secmark"}
	provenTrack      = map[int]string{
		unix.NFT_CT_STATE: "state", unix.NFT_CT_DIRECTION: "direction", unix.NFT_CT_STATUS: "status", unix.NFT_CT_SECMARK: "secmark", unix.NFT_CT_HELPER: "helper", unix.NFT_CT_MARK: "mark", unix.NFT_CT_L3PROTOCOL: "l3proto",
		unix.NFT_CT_SRC: "saddr", unix.NFT_CT_DST: "daddr", unix.NFT_CT_PROTOCOL: "protocol", unix.NFT_CT_PROTO_SRC: "proto-src", unix.NFT_CT_PROTO_DST: "proto-dst", unix.NFT_CT_ZONE: "zone",
		trackSource: "ip saddr", trackSource + 1: "ip daddr", trackSource + 2: "ip6 saddr", trackSource + 3: "ip6 daddr", trackSource + 4: "id",
	}
	// provenStatus are the bits of a connection's status that do not change once it has been answered: [statusLasting].
	provenStatus = map[uint32]string{statusExpected: "expected", statusSeenReply: "seen-reply", statusConfirmed: "confirmed", statusSourceNAT: "snat", statusDestinationNAT: "dnat",
		statusSourceNAT << natDone: "src-nat-done", statusDestinationNAT << natDone: "dst-nat-done"}
	provenTrackWrites = map[int]string{unix.NFT_CT_MARK: "mark", unix.NFT_CT_SECMARK: "secmark", unix.NFT_CT_LABELS: "label", unix.NFT_CT_ZONE: "zone"}
	provenRoute       = map[int]string{unix.NFT_RT_CLASSID: "classid", unix.NFT_RT_NEXTHOP4: "nexthop", unix.NFT_RT_NEXTHOP6: "nexthop6", rtXfrm: "ipsec"}
	// provenObjects are the named objects that decide nothing.
	provenObjects = map[int]string{unix.NFT_OBJECT_COUNTER: "counter", unix.NFT_OBJECT_CT_HELPER: "ct helper", unix.NFT_OBJECT_CT_TIMEOUT: "ct timeout", unix.NFT_OBJECT_SECMARK: "secmark"}
)

// Extensions of iptables, each with its latest known revision.
var (
	provenMatches = map[string]int{
		"comment": 0, "conntrack": 3, "state": 0, "tcp": 0, "udp": 0, "udplite": 0, "sctp": 0, "dccp": 0, "icmp": 0, "icmp6": 0, "ah": 0, "esp": 0, "multiport": 1,
		"addrtype": 1, "mark": 1, "mac": 0, "iprange": 1, "physdev": 0, "devgroup": 0, "policy": 0, "owner": 1, "cgroup": 2, "rpfilter": 0, "realm": 0, "helper": 0,
		"pkttype": 0, "cluster": 0, "connmark": 1, "nfacct": 1,
	}
	// perPacketMatches are as perPacketExpressions. The functions that the kernel has for them (net/netfilter/xt_*.c)
	// change no packet and no connection, and but for statefulMatches nothing that later packets meet. Not here are
	// recent, connlimit, connlabel (it can set labels), socket (it can restore marks), bpf (its program may change maps)
	// and osf (it can log), and rateest, which reads what packets have raised.
	perPacketMatches = map[string]int{
		"limit": 0, "hashlimit": 3, "statistic": 0, "set": 4, "length": 0, "dscp": 0, "tos": 1, "ttl": 0, "quota": 0, "connbytes": 0, "tcpmss": 0, "hl": 0, "frag": 0, "rt": 0, "ipv6header": 0,
		"time": 0, "string": 1, "u32": 0, "cpu": 0, "ecn": 0, "ipvs": 0, "l2tp": 0,
	}
	// statefulMatches are those of them that keep count of packets.
	statefulMatches = allowlist.NameSet("limit", "hashlimit", "statistic", "quota")
	// trackingMatches and trackingTargets are those of all that go by what connection tracking knows of a packet.
	trackingMatches = allowlist.NameSet("conntrack", "state", "connmark", "connbytes", "helper", "cluster")
	trackingTargets = allowlist.NameSet("CONNMARK", "CONNSECMARK")
	// loggingTargets do nothing to packets.
	loggingTargets = allowlist.NameSet("LOG", "NFLOG", "TRACE", "AUDIT")
	provenTargets  = map[string]int{
		"MARK": 2, "CONNMARK": 2, "LOG": 0, "NFLOG": 0, "TRACE": 0, "AUDIT": 1, "CHECKSUM": 0, "REJECT": 0, "CT": 2, "NOTRACK": 0, "SECMARK": 1, "CONNSECMARK": 0,
		"MASQUERADE": 0, "SNAT": 2, "DNAT": 3, "REDIRECT": 0, "ACCEPT": 0, "DROP": 0, "RETURN": 0,
	}
)

const (
	metaSecpath = 25 // NFT_META_SECPATH
	trackSource = 19 // NFT_CT_SRC_IP
	rtXfrm      = 4  // NFT_RT_XFRM
)
