package host

import (
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

// AllowlistRow is one row of what is proven to treat all packets of a flow alike, so that who
// has seen some of them knows what becomes of the next. A flow is carried only where
// everything on its way is in a row of [Allowlist]: what is not is refused by its name.
type AllowlistRow struct {
	Kind  string   // kind of object that the kernel tells of
	Names []string // of what is proven: its attributes, or kinds
	Test  string   // that shows it
}

// Allowlist lists all rows.
func Allowlist() []AllowlistRow {
	rows := []AllowlistRow{
		{"expression of nftables", keysOf(provenExpressions), "TestRulings"},
		{"meta key that rules read", namesOf(provenMeta), "TestRulings"},
		{"meta key that rules write", namesOf(provenMetaWrites), "TestRulingsWriteMarks"},
		{"ct key that rules read", namesOf(provenTrack), "TestRulings"},
		{"ct key that rules write", namesOf(provenTrackWrites), "TestRulings"},
		{"rt key that rules read", namesOf(provenRoute), "TestRulings"},
		{"object of nftables", namesOf(provenObjects), "TestRulings"},
		{"match of iptables", keysOf(provenMatches), "TestRulingsOfIPTables"},
		{"target of iptables", keysOf(provenTargets), "TestRulingsOfIPTables"},
		{"expression of a set's element", keysOf(provenElementExpressions), "TestRulingsOfSets"},
		{"selector of a policy rule", namesOf(flowInvariantSelectors), "TestFickleRoutes"},
		{"queueing discipline of a pod", keysOf(plainQdiscs), "TestFastPathRefuses"},
		{"queueing discipline of the wire", keysOf(provenQueues), "TestReadersOfWire"},
		{"filter of the wire, where it sends", keysOf(provenFilters), "TestReadersOfWire"},
		{"function at a hook of netfilter", keysOf(harmlessFunctions), "TestHooks"},
	}
	for _, a := range provenAttributes {
		rows = append(rows, AllowlistRow{"attribute of " + a.object, namesOf(a.numbers), a.test})
	}
	return rows
}

// allowlist are those of one kind of object that are proven, by their numbers.
type allowlist struct {
	object  string
	numbers map[uint16]string
	test    string
}

// firstUnknown names the first attribute that is not proven; "": there is none.
func (a *allowlist) firstUnknown(list nlAttrs) string {
	for _, one := range list {
		if number := attrType(one.Attr.Type); a.numbers[number] == "" {
			return fmt.Sprintf("attribute %d of %s", number, a.object)
		}
	}
	return ""
}

// numbered gives names to numbers, from the first on; empty ones are left out.
func numbered(first uint16, names ...string) map[uint16]string {
	all := map[uint16]string{}
	for i, name := range names {
		if name != "" {
			all[first+uint16(i)] = name
		}
	}
	return all
}

var (
	provenRule = allowlist{"a rule of nftables", numbered(1, "table", "chain", "handle", "expressions", "compat", "position", "userdata", "pad", "id", "position id", "chain id"), "TestUnprovenRules"}
	provenSet  = allowlist{"a set of nftables", numbered(1, "table", "name", "flags", "key type", "key length", "data type", "data length", "policy", "description", "id",
		"", "gc interval", "userdata", "pad", "object type", "handle", "expression", "expressions", "type", "count"), "TestUnprovenSets"}
	provenElement = allowlist{"an element of a set", numbered(1, "key", "data", "flags", "", "", "userdata", "expression", "pad", "", "key end", "expressions"), "TestUnprovenSets"}
	provenRoutes  = allowlist{"a route", numbered(1, "destination", "", "", "device", "gateway", "priority", "source", "metrics", "", "", "realms", "cache", "", "", "table", "", "", "", "", "preference", "", "", "", "pad", "", "ttl propagation", "", "", "", "next hop"), "TestUnprovenRoutes"}
	provenMetrics = allowlist{"the metrics of a route", numbered(1, "lock", "mtu", "window", "rtt", "rttvar", "ssthresh", "cwnd", "advmss", "reordering", "hoplimit",
		"initcwnd", "features", "rto_min", "initrwnd", "quickack", "congctl", "fastopen_no_cookie"), "TestUnprovenRoutes"}
	provenNexthop   = allowlist{"a next hop", numbered(1, "id", "", "", "blackhole", "device", "gateway"), "TestUnprovenRoutes"}
	provenNeighbour = allowlist{"a neighbour", numbered(1, "address", "MAC", "cache", "probes", "", "", "", "", "", "", "", "protocol", "", "", "flags"), "TestUnprovenNeighbours"}
	provenPort      = allowlist{"a bridge's forwarding entry", numbered(1, "", "MAC", "cache", "", "VLAN", "", "", "", "master", "", "", "protocol", "", "", "flags"), "TestUnprovenNeighbours"}
	provenTunnel    = allowlist{"a tunnel's forwarding entry", numbered(1, "address", "MAC", "cache", "", "", "", "", "", "master", "", "", "protocol", "", "", "flags"), "TestUnprovenNeighbours"}
	provenVXLAN     = allowlist{"a vxlan device", numbered(1, "id", "group", "device", "local", "ttl", "tos", "learning", "ageing", "limit", "ports", "proxy", "rsc", "l2miss", "l3miss", "port",
		"group6", "local6", "udpcsum", "udp6zerocsumtx", "udp6zerocsumrx", "remcsumtx", "remcsumrx", "gbp", "remcsum_nopartial", "external", "label", "gpe", "ttl inherit", "df",
		"vnifilter", "localbypass", "label policy", "reserved bits", "mcroute"), "TestUnprovenTunnels"}
	provenAttributes = []*allowlist{&provenRule, &provenSet, &provenElement, &provenRoutes, &provenMetrics, &provenNexthop, &provenNeighbour, &provenPort, &provenTunnel, &provenVXLAN}
)

// provenExpressions are those of rules by which all packets of a flow are judged alike,
// each with how many attributes it has that are known: their numbers begin at 1. Some
// are looked at more closely, see [rulingReader.expression].
var provenExpressions = map[string]uint16{
	"immediate": 2, "bitwise": 7, "byteorder": 5, "cmp": 3, "range": 4, "lookup": 5, "payload": 8, "exthdr": 7, "meta": 3, "ct": 4, "counter": 3, "log": 6, "last": 3,
	"fib": 3, "rt": 2, "hash": 7, "xfrm": 4, "reject": 2, "notrack": 0, "flow_offload": 1, "nat": 7, "masq": 3, "redir": 3, "osf": 3, "objref": 2, "match": 3, "target": 3,
}

// provenElementExpressions are those of sets and their elements that decide nothing.
var provenElementExpressions = set("counter", "last")

// What all packets of an established flow share.
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
		unix.NFT_CT_STATE: "state", unix.NFT_CT_DIRECTION: "direction", unix.NFT_CT_STATUS: "status", unix.NFT_CT_SECMARK: "secmark", unix.NFT_CT_HELPER: "helper", unix.NFT_CT_L3PROTOCOL: "l3proto",
		unix.NFT_CT_SRC: "saddr", unix.NFT_CT_DST: "daddr", unix.NFT_CT_PROTOCOL: "protocol", unix.NFT_CT_PROTO_SRC: "proto-src", unix.NFT_CT_PROTO_DST: "proto-dst", unix.NFT_CT_ZONE: "zone",
		trackSource: "ip saddr", trackSource + 1: "ip daddr", trackSource + 2: "ip6 saddr", trackSource + 3: "ip6 daddr", trackSource + 4: "id",
	}
	provenTrackWrites = map[int]string{unix.NFT_CT_MARK: "mark", unix.NFT_CT_SECMARK: "secmark", unix.NFT_CT_LABELS: "label", unix.NFT_CT_ZONE: "zone", unix.NFT_CT_EVENTMASK: "event"}
	provenRoute       = map[int]string{unix.NFT_RT_CLASSID: "classid", unix.NFT_RT_NEXTHOP4: "nexthop", unix.NFT_RT_NEXTHOP6: "nexthop6", rtXfrm: "ipsec"}
	// provenObjects are those named ones that decide nothing.
	provenObjects = map[int]string{unix.NFT_OBJECT_COUNTER: "counter", unix.NFT_OBJECT_CT_HELPER: "ct helper", unix.NFT_OBJECT_CT_TIMEOUT: "ct timeout", unix.NFT_OBJECT_SECMARK: "secmark", unix.NFT_OBJECT_CT_EXPECT: "ct expectation"}
)

// Extensions of iptables, each with its latest revision that is known.
var (
	provenMatches = map[string]int{
		"comment": 0, "conntrack": 3, "state": 0, "tcp": 0, "udp": 0, "udplite": 0, "sctp": 0, "dccp": 0, "icmp": 0, "icmp6": 0, "ah": 0, "esp": 0, "multiport": 1,
		"addrtype": 1, "mark": 1, "mac": 0, "iprange": 1, "physdev": 0, "devgroup": 0, "policy": 0, "owner": 1, "cgroup": 2, "rpfilter": 0, "realm": 0, "helper": 0,
		"pkttype": 0, "cluster": 0,
	}
	provenTargets = map[string]int{
		"MARK": 2, "CONNMARK": 2, "LOG": 0, "NFLOG": 0, "TRACE": 0, "AUDIT": 1, "CHECKSUM": 0, "REJECT": 0, "CT": 2, "NOTRACK": 0, "SECMARK": 1, "CONNSECMARK": 0,
		"MASQUERADE": 0, "SNAT": 2, "DNAT": 3, "REDIRECT": 0, "ACCEPT": 0, "DROP": 0, "RETURN": 0,
	}
)

// provenQueues are the queueing disciplines of the wire that look at nothing but what
// carried packets have, too; true: at marks, if it has filters.
var provenQueues = map[string]bool{
	"noqueue": false, "pfifo_fast": false, "pfifo": false, "bfifo": false, "mq": false, "fq": false, "codel": false, "pie": false, "clsact": false, "ingress": false,
	"fq_codel": true, "fq_pie": true, "sfq": true, "tbf": true, "netem": true, "red": true, "htb": true, "hfsc": true, "drr": true, "cake": true,
}

// provenFilters are the kinds of tc filters where the wire sends that look at nothing but
// what carried packets have, too, and at marks.
var provenFilters = set("u32", "flower", "matchall", "fw", "bpf")

const (
	metaSecpath = 25 // NFT_META_SECPATH
	trackSource = 19 // NFT_CT_SRC_IP
	rtXfrm      = 4  // NFT_RT_XFRM
)

func keysOf[V any](m map[string]V) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func namesOf[K comparable, V any](m map[K]V) (names []string) {
	for k, v := range m {
		if name, ok := any(v).(string); ok {
			names = append(names, name)
		} else {
			names = append(names, fmt.Sprint(k))
		}
	}
	slices.Sort(names)
	return names
}
