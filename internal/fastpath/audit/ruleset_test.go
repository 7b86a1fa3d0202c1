package audit_test

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath/audit"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
)

// auditRuleset audits the rules of a namespace. Of the names of rules, it leaves out the handles.
func auditRuleset(t *testing.T, n *netcfg.Namespace, port uint16) audit.RulesetAudit {
	t.Helper()
	of := audit.Overlay{Port: port, Wire: "wire"}
	if port != 0 {
		of.Protocol = unix.IPPROTO_UDP
	}
	return auditOverlay(t, n, of)
}

func auditOverlay(t *testing.T, n *netcfg.Namespace, of audit.Overlay) (r audit.RulesetAudit) {
	t.Helper()
	testenv.InNetns(t, n.Path(), func() (err error) {
		r, err = audit.Ruleset(of)
		return err
	})
	for _, text := range []*string{&r.PerPacket, &r.PerPacketUnreplied, &r.HidesEvents} {
		*text = handles.ReplaceAllString(*text, "")
	}
	return r
}

var handles = regexp.MustCompile(` handle \d+`)

// Rules that treat all packets of an established flow alike are told from those that do not.
func TestRulings(t *testing.T) {
	n := testenv.Netns(t)
	const tunnel = 4789
	for _, c := range []struct {
		hook, rules, perPacket string
	}{
		{"forward", "ip saddr 192.0.2.1 tcp dport 80 accept", ""},
		{"forward", "udp sport 5 drop; counter log accept", ""},
		{"forward", "tcp flags & (syn|ack) == syn tcp option maxseg size set 1400", ""},
		{"forward", "limit rate 10/second accept", "ip t first: limit"},
		{"prerouting", "quota over 1 mbytes drop", "ip t first: quota"},
		{"postrouting", "numgen random mod 10 0 drop", "ip t first: numgen"},
		{"forward", "meta hour 10:00-12:00 drop", "ip t first: meta hour"},
		{"forward", "meta length 1000-1200 drop", "ip t first: meta length"},
		{"forward", "ct bytes > 1000000 drop", "ip t first: ct bytes"},
		{"forward", "ct count over 10 drop", "ip t first: connlimit"},
		{"prerouting", "socket transparent 1 accept", "ip t first: socket"},
		{"forward", "rt mtu > 1400 drop", "ip t first: rt mtu"},
		{"forward", "rt classid 7 drop", ""},
		{"forward", "fib daddr type local drop", ""},
		{"forward", "ip dscp ef drop", "ip t first: bytes 1 to 1 of a header"},
		{"forward", "udp length > 500 drop", "ip t first: bytes 4 to 5 of a header"},
		{"forward", "ip frag-off & 0x1fff != 0 limit rate 10/second drop", ""},
		{"forward", "ip frag-off & 0x4000 == 0 drop", "ip t first: ip frag-off"},
		{"forward", "ip frag-off 0 drop", "ip t first: ip frag-off"},
		{"forward", "@nh,48,24 0x400040 drop", "ip t first: bytes 6 to 8 of a header"},
		{"forward", "ip option rr exists limit rate 10/second drop", "ip t first: limit"},
		{"forward", "ip option rr exists drop", ""},
		{"forward", "meta l4proto > 17 accept; limit rate 10/second accept", "ip t first: limit"},
		{"forward", "ip dscp set cs1", "ip t first: writes packets"},
		{"forward", "reset tcp option timestamp", "ip t first: writes packets"},
		{"forward", "tcp flags syn reset tcp option timestamp", ""},
		{"forward", "tcp option maxseg size set 1400", "ip t first: writes packets"},
		{"forward", "tcp flags syn / fin,syn,rst tcp option maxseg size set rt mtu", ""},
		{"forward", "tcp option timestamp exists drop", "ip t first: tcp option"},
		{"forward", "tcp flags syn tcp option maxseg size 1-500 drop", ""},
		{"output", "tcp option timestamp exists drop", ""},
		// TCP flags that packets of the fast path may have or not, and flags that none of them has.
		{"forward", "tcp flags & psh == psh drop", "ip t first: tcp flags"},
		{"forward", "tcp flags psh drop", "ip t first: tcp flags"},
		{"forward", "tcp flags & urg == 0 accept", "ip t first: tcp flags"},
		{"forward", "tcp flags ecn,cwr drop", "ip t first: tcp flags"},
		{"forward", "tcp flags == ack accept", "ip t first: tcp flags"},
		{"forward", "ip protocol tcp tcp flags & (ack|psh) == ack accept", "ip t first: tcp flags"},
		{"forward", "tcp flags & (fin|psh|urg) == fin|psh|urg limit rate 10/second drop", ""},
		{"forward", "tcp flags & (fin|syn|rst|psh|ack|urg) == 0 limit rate 10/second drop", ""},
		{"forward", "tcp flags & (fin|syn|rst|ack) == ack limit rate 10/second drop", "ip t first: limit"},
		{"forward", "tcp flags & (fin|syn|rst|ack) == ack drop", ""},
		{"forward", "tcp flags == syn limit rate 10/second drop", ""},
		{"forward", "tcp flags != syn drop", ""},
		{"forward", "tcp flags { syn, syn|ack } limit rate 10/second drop", ""},
		{"forward", "tcp flags { ack, ack|psh } drop", "ip t first: tcp flags"},
		{"forward", "tcp flags != { syn, rst } drop", ""},
		{"forward", "tcp flags 0x10-0x20 drop", "ip t first: tcp flags"},
		{"forward", "tcp flags | psh == 0x18 accept", "ip t first: tcp flags"},
		{"forward", "tcp flags & 0x17 == ack drop", ""},
		{"forward", "tcp dport . tcp flags { 80 . psh } drop", "ip t first: tcp flags"},
		{"forward", "tcp flags . tcp dport { psh . 80 } drop", "ip t first: tcp flags"},
		{"forward", "tcp flags vmap { syn : jump other, rst : drop }", ""},
		{"forward", "tcp flags vmap { syn : jump other, ack : drop }", "ip t first: tcp flags"},
		{"forward", "tcp flags & (syn|ack) vmap { syn : drop, ack : jump other }", "ip t other: limit"},
		{"forward", "meta mark set tcp flags map { ack : 1, ack|psh : 2 }", "ip t first: tcp flags"},
		{"forward", "jhash tcp flags mod 2 0 drop", "ip t first: tcp flags"},
		{"forward", "@th,104,8 & 8 == 8 drop", "ip t first: bytes 13 to 13 of a header"},
		{"forward", "tcp doff > 5 drop", "ip t first: bytes 12 to 12 of a header"},
		{"forward", "update @young { ip saddr } accept", "ip t first: dynset"},
		{"forward", "ip saddr @young drop", "ip t first: elements of set young come and go by themselves"},
		{"forward", "ip saddr @still drop", ""},
		{"forward", "ip saddr 192.0.2.1 jump other", "ip t other: limit"},
		{"forward", "tcp dport vmap { 80 : accept, 81 : jump other }", "ip t other: limit"},
		// Rules that no packet of an established TCP or UDP flow matches.
		{"forward", "ct state new limit rate 10/second accept", ""},
		{"forward", "ct state new jump other", ""},
		{"forward", "ct state invalid limit rate 10/second log", ""},
		{"forward", "ct state != established limit rate 10/second accept", ""},
		{"forward", "ct state established,related accept; limit rate 10/second accept", ""},
		{"forward", "ct state established accept; limit rate 10/second accept", ""},
		{"forward", "ct state { established, related } accept; limit rate 10/second accept", ""},
		{"forward", "ct state vmap { established : accept, invalid : drop }; limit rate 10/second accept", ""},
		{"forward", "ct state vmap { established : jump other, invalid : drop }", "ip t other: limit"},
		{"forward", "ct state vmap { new : jump other, invalid : drop }", ""},
		{"forward", "ct state vmap { invalid : drop, * : jump other }", "ip t other: limit"},
		{"forward", "jump done; limit rate 10/second accept", ""},
		{"forward", "ip saddr 192.0.2.1 jump done; limit rate 10/second accept", "ip t first: limit"},
		{"forward", "ip saddr 192.0.2.1 ct state established accept; limit rate 10/second accept", "ip t first: limit"},
		{"forward", "ct state related accept; limit rate 10/second accept", "ip t first: limit"},
		{"forward", "icmp type echo-request limit rate 1/second accept", ""},
		{"forward", "accept; limit rate 10/second accept", ""},
		{"prerouting", "notrack; ct state established accept; limit rate 10/second accept", "ip t first: limit"},
		{"prerouting", "udp dport 4789 notrack; ct state established accept; udp dport 80 limit rate 10/second accept", ""},
		{"prerouting", "udp dport 4789 notrack; ct state established accept; tcp dport 4789 limit rate 10/second accept", ""},
		{"prerouting", "tcp dport 4789 notrack; ct state established accept; tcp dport 4789 limit rate 10/second accept", "ip t first: limit"},
		{"prerouting", "th dport 4789 notrack; ct state established accept; tcp dport 4789 limit rate 10/second accept", "ip t first: limit"},
		{"prerouting", "notrack udp dport 4789; ct state established accept; tcp dport 4789 limit rate 10/second accept", "ip t first: limit"},
		{"forward", "ct expectation set \"expected\"", "ip t first: named object of type 9"},
		{"forward", "ct state new ct expectation set \"expected\"", ""},
		// Of the host's own packets, only those of tunnels count.
		{"input", "tcp dport 22 limit rate 10/second accept", ""},
		{"input", "udp dport 53 limit rate 10/second accept", ""},
		{"input", "udp dport 4789 limit rate 10/second accept", "ip t first: limit"},
		{"output", "limit rate 10/second accept", "ip t first: limit"},
		{"input", "udp dport 4789 accept; limit rate 10/second accept", ""},
		{"input", "udp dport != 4790 accept; limit rate 10/second accept", "ip t first: limit"},
		{"input", "udp dport & 0xff00 == 0x1200 accept; limit rate 10/second accept", "ip t first: limit"},
		// Packets to a tunnel's port get no reply from that port.
		{"input", "ct state new limit rate 10/second accept", "ip t first: limit"},
		{"input", "ct state untracked limit rate 10/second accept", "ip t first: limit"},
		{"input", "ct state established accept; limit rate 10/second accept", "ip t first: limit"},
		{"input", "ct state new,established,untracked accept; limit rate 10/second accept", ""},
		{"input", "ct state { new, established } accept; limit rate 10/second accept", "ip t first: limit"},
		{"input", "ct state vmap { new : jump other, established : accept }", "ip t other: limit"},
		{"input", "ct state vmap { new : accept, established : accept, invalid : jump other }", ""},
		{"output", "ct state invalid limit rate 10/second accept", ""},
		// What drops all but the first packet of a connection has let it pass.
		{"input", "ct state established drop", "ip t first: ct state"},
		{"input", "ct state established,related reject", "ip t first: ct state"},
		{"input", "ct state new accept; ct state established jump drops", "ip t drops: drops established tunnel packets, by ct state in ip t first"},
		{"output", "ct state established jump done; ct state established goto accepts", ""},
		{"output", "ct state { established } drop", "ip t first: ct state"},
		{"input", "ct state vmap { new : accept, established : drop }", "ip t first: ct state"},
		{"input", "ct state vmap { new : accept, * : drop }", "ip t first: ct state"},
		{"input", "ct state vmap { new : drop, established : accept }", ""},
		{"input", "ct state new jump drops; ct state invalid drop", ""},
		{"input", "ct state . ip saddr { established . 192.0.2.1 } drop", "ip t first: ct state"},
		{"input", "ct state > 2 drop", "ip t first: ct state"},
		{"prerouting", "udp dport 4789 ct state new limit rate 10/second accept", "ip t first: limit"},
		{"postrouting", "ct state new limit rate 10/second accept", "ip t first: limit"},
		{"postrouting", "udp dport 80 ct state new limit rate 10/second accept", ""},
	} {
		input := "flush ruleset\ntable ip t {\nset young { type ipv4_addr; flags dynamic,timeout; timeout 1m; }\nset still { type ipv4_addr; }\n" +
			"chain other { limit rate 10/second accept; }\nchain done { ct state established accept; }\nchain accepts { tcp dport 80 drop; accept; }\n" +
			"chain drops { udp dport 4789 drop; }\nct expectation expected { protocol udp; dport 9876; timeout 2m; size 12; l3proto ip; }\n" +
			"chain first {\ntype filter hook " + c.hook + " priority 5\n" + c.rules + "\n}\n" +
			"chain nat {\ntype nat hook postrouting priority 100\nnumgen random mod 2 0 masquerade\n}\n}\n" +
			"table ip6 t {\nchain first {\ntype filter hook forward priority 5\nlimit rate 10/second accept\n}\n}\n"
		if err := testenv.Load(t, n, input, "nft", "-f", "-"); err != nil {
			t.Errorf("%s: %v", c.rules, err)
			continue
		}
		if got := auditRuleset(t, n, tunnel); got.PerPacket != c.perPacket || len(got.DeviceChains) > 0 {
			t.Errorf("%s: perPacket %q, want %q; devices %v", c.rules, got.PerPacket, c.perPacket, got.DeviceChains)
		}
		own := c.hook == "input" || c.hook == "output" || strings.Contains(c.rules, "ct state new limit")
		if own && auditRuleset(t, n, 0).PerPacket != "" {
			t.Errorf("%s depends on the packet where there are no tunnels", c.rules)
		}
	}
}

// The same holds for rules of iptables, which nftables wraps.
func TestRulingsOfIPTables(t *testing.T) {
	n := testenv.Netns(t)
	testenv.InNetns(t, n.Path(), func() error { return netlink.IpsetCreate("ours", "hash:ip", netlink.IpsetCreateOptions{}) })
	for _, c := range []struct {
		rules     []string
		perPacket string
	}{
		{[]string{"-s 192.0.2.1 -p tcp --dport 80 -j ACCEPT", "-m comment --comment text -j MARK --set-xmark 0x1/0x1"}, ""},
		{[]string{"-m conntrack --ctstatus ASSURED -j ACCEPT"}, "ip filter FORWARD: ct status assured"},
		{[]string{"-m conntrack --ctstatus SEEN_REPLY -j ACCEPT"}, ""},
		{[]string{"-m limit --limit 10/s -j ACCEPT"}, "ip filter FORWARD: limit"},
		{[]string{"-m statistic --mode random --probability 0.5 -j DROP"}, "ip filter FORWARD: match statistic"},
		{[]string{"-m recent --name x --set"}, "ip filter FORWARD: match recent"},
		{[]string{"-m length --length 1000:2000 -j DROP"}, "ip filter FORWARD: match length"},
		{[]string{"-m set --match-set ours src -j ACCEPT"}, ""},
		{[]string{"-j TEE --gateway 192.0.2.1"}, "ip filter FORWARD: target TEE"},
		{[]string{"-m conntrack --ctstate NEW -m limit --limit 10/s -j ACCEPT"}, ""},
		{[]string{"-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT", "-m limit --limit 10/s -j ACCEPT"}, ""},
		{[]string{"-m conntrack ! --ctstate RELATED,ESTABLISHED -m limit --limit 10/s -j ACCEPT"}, ""},
		{[]string{"-p icmp -m limit --limit 10/s -j ACCEPT"}, ""},
		{[]string{"-p tcp --tcp-flags SYN,RST SYN -j TCPMSS --clamp-mss-to-pmtu"}, ""},
		{[]string{"-p tcp --tcp-flags SYN,RST SYN -m tcpmss --mss 1400:65535 -j TCPMSS --set-mss 1400"}, ""},
		{[]string{"-p tcp -j TCPMSS --set-mss 1400"}, "ip filter FORWARD: target TCPMSS"},
		{[]string{"-p tcp -m tcpmss --mss 1400:65535 -j DROP"}, "ip filter FORWARD: match tcpmss"},
		{[]string{"-p tcp --tcp-flags PSH PSH -j DROP"}, "ip filter FORWARD: tcp flags"},
		{[]string{"-p tcp ! --tcp-flags ALL ACK -j DROP"}, "ip filter FORWARD: tcp flags"},
		{[]string{"-p tcp --tcp-flags ALL FIN,PSH,URG -m limit --limit 10/s -j DROP", "-p tcp ! --syn -j ACCEPT"}, ""},
		{[]string{"-p tcp --tcp-option 8 -j DROP"}, "ip filter FORWARD: tcp option"},
		{[]string{"-p tcp --tcp-option 8 --tcp-flags PSH PSH -j DROP"}, "ip filter FORWARD: tcp flags"},
		{[]string{"-p tcp --tcp-option 8 --syn -j DROP"}, ""},
		{[]string{"-f -j DROP"}, ""},
		{[]string{"-j CONNMARK --restore-mark"}, ""},
		{[]string{"-j CONNMARK --restore-mark --nfmask 0xff --ctmask 0xff"}, ""},
		{[]string{"-j CONNMARK --save-mark", "-j CONNMARK --set-mark 5"}, ""},
	} {
		restore := "*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD " + strings.Join(c.rules, "\n-A FORWARD ") + "\nCOMMIT\n"
		if err := testenv.Load(t, n, restore, "iptables-nft-restore"); err != nil {
			t.Logf("%s: this machine cannot: %v", c.rules, err)
			continue
		}
		if got := auditRuleset(t, n, 0).PerPacket; strings.ReplaceAll(got, "match limit", "limit") != c.perPacket {
			t.Errorf("%s: perPacket %q, want %q", c.rules, got, c.perPacket)
		}
	}
}

// Chains that are attached to devices are found, with their directions.
func TestRulingsAtDevices(t *testing.T) {
	n := testenv.Netns(t)
	for _, name := range []string{"d0", "d1"} {
		testenv.Must(t, n.AddBridge(name, nil, 1500))
	}
	input := "table netdev t {\nchain a { type filter hook ingress device d0 priority 0; }\nchain b { type filter hook egress devices = { d0, d1 } priority 0; }\n}\n"
	err := testenv.Load(t, n, input, "nft", "-f", "-")
	testenv.Must(t, err)
	got := auditRuleset(t, n, 0)
	want := map[string]audit.Direction{"d0": audit.Ingress | audit.Egress, "d1": audit.Egress}
	if !maps.Equal(got.DeviceChains, want) || got.DirectionsAt("d1") != audit.Egress || got.DirectionsAt("lo") != 0 {
		t.Errorf("chains stand at %v, want %v", got.DeviceChains, want)
	}
}

// The packets of an overlay without ports are met by rules for their protocol, and by those that read
// the inner header for ports.
func TestRulingsOfIPIP(t *testing.T) {
	for _, c := range []struct{ hook, rule, perPacket string }{
		{"input", "ip protocol 4 accept", ""},
		{"input", "ip protocol 4 limit rate 10/second accept", "ip t first: limit"},
		{"output", "meta l4proto 4 limit rate 10/second accept", "ip t first: limit"},
		{"input", "udp dport 8472 limit rate 10/second accept", ""},
		{"input", "tcp flags psh limit rate 10/second accept", ""},
		{"input", "meta l4proto != 4 limit rate 10/second accept", ""},
		{"input", "th dport 0 drop", "ip t first: bytes 2 to 3 of a header"},
		{"input", "meta l4proto { tcp, udp } th dport 53 drop", ""},
		{"input", "ip protocol { tcp, udp } th dport 53 drop", ""},
		{"input", "meta l4proto { tcp, 4 } th dport 53 drop", "ip t first: bytes 2 to 3 of a header"},
		{"input", "meta l4proto != { tcp, udp } th dport 53 drop", "ip t first: bytes 2 to 3 of a header"},
		{"input", "ip daddr . meta l4proto . th dport { 10.0.0.1 . tcp . 53 } drop", ""},
		{"input", "th dport . meta l4proto vmap { 53 . tcp : drop }", ""},
		{"input", "ip daddr . meta l4proto . th dport vmap { 10.0.0.1 . tcp . 53 : drop, 10.0.0.2 . udp . 53 : drop }", ""},
		{"input", "ip daddr . meta l4proto . th dport vmap { 10.0.0.1 . tcp . 53 : drop, 10.0.0.2 . 4 . 53 : drop }", "ip t first: bytes 2 to 3 of a header"},
		{"input", "meta l4proto . th dport vmap { tcp . 53 : drop, * : drop }", "ip t first: bytes 2 to 3 of a header"},
		{"input", "meta l4proto . th dport vmap { tcp . 1-9 : drop }", "ip t first: bytes 2 to 3 of a header"},
		{"output", "th sport 17664 drop", "ip t first: bytes 0 to 1 of a header"},
		{"output", "ip ttl 5 drop", "ip t first: bytes 8 to 8 of a header"},
		{"forward", "iifname \"wire\" limit rate 10/second drop", ""},
		{"prerouting", "udp dport 0 notrack", ""},
	} {
		n := testenv.Netns(t)
		testenv.Must(t, testenv.Load(t, n, fmt.Sprintf("table ip t { chain first { type filter hook %s priority 0; %s; }; }", c.hook, c.rule), "nft", "-f", "-"))
		of := audit.Overlay{Protocol: unix.IPPROTO_IPIP, Wire: "wire"}
		if got := auditOverlay(t, n, of); got.PerPacket != c.perPacket {
			t.Errorf("%s: %s: perPacket %q, want %q", c.hook, c.rule, got.PerPacket, c.perPacket)
		}
	}
}

// kubeProxy are rules as kube-proxy writes them for nftables, with two endpoints of a Service with
// session affinity.
const kubeProxy = `table ip kube-proxy {
	set cluster-ips { type ipv4_addr; elements = { 10.96.0.10 }; }
	set affinity { type ipv4_addr; flags dynamic,timeout; timeout 3h; }
	map service-ips { type ipv4_addr . inet_proto . inet_service : verdict; elements = { 10.96.0.10 . tcp . 53 : goto service }; }
	map no-endpoint-services { type ipv4_addr . inet_proto . inet_service : verdict; elements = { 10.96.0.99 . tcp . 80 : goto rejected }; }
	chain rejected { reject; }
	chain endpoint-a { update @affinity { ip saddr }; meta l4proto tcp dnat to 10.0.0.1:53; }
	chain endpoint-b { meta l4proto tcp dnat to 10.0.0.2:53; }
	chain service {
		ip saddr @affinity goto endpoint-a
		numgen random mod 2 vmap { 0 : goto endpoint-a, 1 : goto endpoint-b }
	}
	chain services { ip daddr . meta l4proto . th dport vmap @service-ips; }
	chain endpoints-check { ip daddr . meta l4proto . th dport vmap @no-endpoint-services; }
	chain cluster-ips-check { ip daddr @cluster-ips reject; }
	chain filter-prerouting { type filter hook prerouting priority -110; ct state new jump endpoints-check; }
	chain filter-forward {
		type filter hook forward priority -110
		ct state new jump endpoints-check
		ct state new jump cluster-ips-check
	}
	chain filter-input { type filter hook input priority -110; ct state new jump endpoints-check; }
	chain filter-output { type filter hook output priority -110; ct state new jump endpoints-check; }
	chain nat-prerouting { type nat hook prerouting priority -100; jump services; }
	chain nat-postrouting { type nat hook postrouting priority 100; meta mark & 0x4000 == 0 return; meta mark set mark and 0xffffbfff; masquerade random; }
}`

// Packets of established flows do not meet the rules that balance connections over the endpoints of
// Services.
func TestRulingsOfKubeProxy(t *testing.T) {
	n := testenv.Netns(t)
	err := testenv.Load(t, n, kubeProxy, "nft", "-f", "-")
	testenv.Must(t, err)
	for _, of := range []audit.Overlay{{Protocol: unix.IPPROTO_UDP, Port: 8472}, {Protocol: unix.IPPROTO_IPIP}, {}} {
		if got := auditOverlay(t, n, of); got.PerPacket != "" {
			t.Errorf("with the overlay %+v they depend on the packet: %s", of, got.PerPacket)
		}
	}
}

// Of kube-proxy in IPVS mode, the rules that translate do not count. The rules that accept packets
// to the host use ipsets, and packets of a tunnel are packets to the host. If Services restrict
// their sources, rules for forwarded packets use ipsets, too.
func TestRulingsOfIPVS(t *testing.T) {
	n := testenv.Netns(t)
	testenv.InNetns(t, n.Path(), func() (err error) {
		for name, kind := range map[string]string{"KUBE-CLUSTER-IP": "hash:ip,port", "KUBE-LOAD-BALANCER-FW": "hash:ip,port",
			"KUBE-HEALTH-CHECK-NODE-PORT": "bitmap:port", "KUBE-IPVS-IPS": "hash:ip", "KUBE-LOOP-BACK": "hash:ip,port,ip"} {
			o := netlink.IpsetCreateOptions{}
			if kind == "bitmap:port" {
				o.PortTo = 65535
			}
			err = errors.Join(err, netlink.IpsetCreate(name, kind, o))
		}
		return err
	})
	const nat = `*nat
:PREROUTING ACCEPT [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-POSTROUTING - [0:0]
-A PREROUTING -j KUBE-SERVICES
-A POSTROUTING -j KUBE-POSTROUTING
-A KUBE-SERVICES -m set --match-set KUBE-CLUSTER-IP dst,dst -j ACCEPT
-A KUBE-POSTROUTING -m set --match-set KUBE-LOOP-BACK dst,dst,src -j MASQUERADE
-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN
-A KUBE-POSTROUTING -j MARK --set-xmark 0x4000/0x0
-A KUBE-POSTROUTING -j MASQUERADE
COMMIT
`
	const filter = `*filter
:KUBE-FORWARD - [0:0]
:KUBE-IPVS-FILTER - [0:0]
:KUBE-NODE-PORT - [0:0]
:KUBE-PROXY-FIREWALL - [0:0]
:KUBE-SOURCE-RANGES-FIREWALL - [0:0]
-A FORWARD -j KUBE-PROXY-FIREWALL
-A FORWARD -j KUBE-FORWARD
-A KUBE-FORWARD -m mark --mark 0x4000/0x4000 -j ACCEPT
-A KUBE-FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A KUBE-SOURCE-RANGES-FIREWALL -j DROP
`
	const input = `-A INPUT -j KUBE-NODE-PORT
-A INPUT -j KUBE-IPVS-FILTER
-A KUBE-NODE-PORT -m set --match-set KUBE-HEALTH-CHECK-NODE-PORT dst -j ACCEPT
-A KUBE-IPVS-FILTER -m set --match-set KUBE-CLUSTER-IP dst,dst -j RETURN
-A KUBE-IPVS-FILTER -m conntrack --ctstate NEW -m set --match-set KUBE-IPVS-IPS dst -j REJECT --reject-with icmp-port-unreachable
`
	const restricted = "-A KUBE-PROXY-FIREWALL -m set --match-set KUBE-LOAD-BALANCER-FW dst,dst -j KUBE-SOURCE-RANGES-FIREWALL\n"
	for _, c := range []struct {
		rules string
		port  uint16
		asks  []string
	}{
		{nat + filter + input, 0, nil},
		{nat + filter, 8472, nil},
		{nat + filter + input, 8472, []string{"KUBE-CLUSTER-IP", "KUBE-HEALTH-CHECK-NODE-PORT", "KUBE-IPVS-IPS"}},
		{nat + filter + restricted, 0, []string{"KUBE-LOAD-BALANCER-FW"}},
	} {
		if err := testenv.Load(t, n, c.rules+"COMMIT\n", "iptables-nft-restore"); err != nil {
			t.Skipf("this machine cannot: %v", err)
		}
		if got := auditRuleset(t, n, c.port); got.PerPacket != "" || !slices.Equal(got.IPSets, c.asks) {
			t.Errorf("with port %d: perPacket %q, depends on %q, want %q, of\n%s", c.port, got.PerPacket, got.IPSets, c.asks, c.rules)
		}
	}
}
