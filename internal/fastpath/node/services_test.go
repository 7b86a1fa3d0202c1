package node_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ti-mo/conntrack"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/traffic"
)

// The Service of these tests, whose pod is the second node's.
const (
	serviceAddress = "10.96.0.10:53"
	podPort        = "10.244.2.2:7777"
)

// proxies are the rules that kube-proxy writes in each of its modes, for a Service over UDP and
// TCP and for as many others as NNN says. I is the number of the node.
var proxies = []struct {
	name    string
	program []string
	rules   func(others int) string
}{
	{"iptables", []string{"iptables-nft-restore"}, iptablesProxy},
	{"nftables", []string{"nft", "-f", "-"}, nftablesProxy},
}

// iptablesProxy is what kube-proxy 1.34 writes in mode iptables.
func iptablesProxy(others int) string {
	var services, chains strings.Builder
	for _, proto := range []string{"udp", "tcp"} {
		fmt.Fprintf(&services, `-A KUBE-SERVICES -d 10.96.0.10/32 -p %[1]s -m comment --comment "default/web:%[1]s cluster IP" -m %[1]s --dport 53 -j KUBE-SVC-%[1]s
-A KUBE-SVC-%[1]s ! -s 10.244.0.0/16 -d 10.96.0.10/32 -p %[1]s -m comment --comment "default/web:%[1]s cluster IP" -m %[1]s --dport 53 -j KUBE-MARK-MASQ
-A KUBE-SVC-%[1]s -m comment --comment "default/web:%[1]s -> 10.244.2.2:7777" -j KUBE-SEP-%[1]s
-A KUBE-SEP-%[1]s -s 10.244.2.2/32 -m comment --comment "default/web:%[1]s" -j KUBE-MARK-MASQ
-A KUBE-SEP-%[1]s -p %[1]s -m comment --comment "default/web:%[1]s" -m %[1]s -j DNAT --to-destination 10.244.2.2:7777
`, proto)
		fmt.Fprintf(&chains, ":KUBE-SVC-%[1]s - [0:0]\n:KUBE-SEP-%[1]s - [0:0]\n", proto)
	}
	for i := range others {
		fmt.Fprintf(&services, `-A KUBE-SERVICES -d 10.96.%[1]d.%[2]d/32 -p tcp -m comment --comment "default/other" -m tcp --dport 80 -j KUBE-SVC-%[3]d
-A KUBE-SVC-%[3]d -m comment --comment "default/other -> 10.244.2.2:7777" -m statistic --mode random --probability 0.50000000000 -j KUBE-SEP-tcp
-A KUBE-SVC-%[3]d -m comment --comment "default/other -> 10.244.2.2:7777" -j KUBE-SEP-tcp
`, 1+i/250, 1+i%250, i)
		fmt.Fprintf(&chains, ":KUBE-SVC-%d - [0:0]\n", i)
	}
	return `*mangle
:KUBE-IPTABLES-HINT - [0:0]
:KUBE-KUBELET-CANARY - [0:0]
:KUBE-PROXY-CANARY - [0:0]
COMMIT
*filter
:KUBE-EXTERNAL-SERVICES - [0:0]
:KUBE-FIREWALL - [0:0]
:KUBE-FORWARD - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-PROXY-FIREWALL - [0:0]
:KUBE-SERVICES - [0:0]
-A INPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes load balancer firewall" -j KUBE-PROXY-FIREWALL
-A INPUT -m comment --comment "kubernetes health check service ports" -j KUBE-NODEPORTS
-A INPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes externally-visible service portals" -j KUBE-EXTERNAL-SERVICES
-A INPUT -j KUBE-FIREWALL
-A FORWARD -m conntrack --ctstate NEW -m comment --comment "kubernetes load balancer firewall" -j KUBE-PROXY-FIREWALL
-A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
-A FORWARD -m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A FORWARD -m conntrack --ctstate NEW -m comment --comment "kubernetes externally-visible service portals" -j KUBE-EXTERNAL-SERVICES
-A OUTPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes load balancer firewall" -j KUBE-PROXY-FIREWALL
-A OUTPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A OUTPUT -j KUBE-FIREWALL
-A KUBE-FIREWALL ! -s 127.0.0.0/8 -d 127.0.0.0/8 -m comment --comment "block incoming localnet connections" -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP
-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP
-A KUBE-FORWARD -m comment --comment "kubernetes forwarding rules" -m mark --mark 0x4000/0x4000 -j ACCEPT
-A KUBE-FORWARD -m comment --comment "kubernetes forwarding conntrack rule" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
COMMIT
*nat
:KUBE-KUBELET-CANARY - [0:0]
:KUBE-MARK-MASQ - [0:0]
:KUBE-NODEPORTS - [0:0]
:KUBE-POSTROUTING - [0:0]
:KUBE-PROXY-CANARY - [0:0]
:KUBE-SERVICES - [0:0]
` + chains.String() + `-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A POSTROUTING -m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING
-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN
-A KUBE-POSTROUTING -j MARK --set-xmark 0x4000/0x0
-A KUBE-POSTROUTING -m comment --comment "kubernetes service traffic requiring SNAT" -j MASQUERADE --random-fully
` + services.String() + `-A KUBE-SERVICES -m comment --comment "kubernetes service nodeports; NOTE: this must be the last rule in this chain" -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS
COMMIT
`
}

// nftablesProxy is what it writes in mode nftables.
func nftablesProxy(others int) string {
	var ips, addresses strings.Builder
	for i := range others {
		fmt.Fprintf(&ips, ", 10.96.%d.%d . tcp . 80 : goto service-web-tcp", 1+i/250, 1+i%250)
		fmt.Fprintf(&addresses, ", 10.96.%d.%d", 1+i/250, 1+i%250)
	}
	service := ""
	for _, proto := range []string{"udp", "tcp"} {
		service += fmt.Sprintf(`
	chain endpoint-web-%[1]s { ip saddr 10.244.2.2 jump mark-for-masquerade
		meta l4proto %[1]s dnat to 10.244.2.2:7777; }
	chain service-web-%[1]s { ip daddr 10.96.0.10 %[1]s dport 53 ip saddr != 10.244.0.0/16 jump mark-for-masquerade
		numgen random mod 1 vmap { 0 : goto endpoint-web-%[1]s }; }`, proto)
	}
	return `add table ip kube-proxy
delete table ip kube-proxy
table ip kube-proxy {
	comment "rules for kube-proxy"
	set cluster-ips { type ipv4_addr; comment "Active ClusterIPs"; elements = { 10.96.0.10` + addresses.String() + ` }; }
	set nodeport-ips { type ipv4_addr; comment "IPs that accept NodePort traffic"; elements = { 192.0.10.I }; }
	map no-endpoint-services { type ipv4_addr . inet_proto . inet_service : verdict; comment "vmap to drop or reject packets to services with no endpoints"; }
	map no-endpoint-nodeports { type inet_proto . inet_service : verdict; }
	map firewall-ips { type ipv4_addr . inet_proto . inet_service : verdict; }
	map service-nodeports { type inet_proto . inet_service : verdict; }
	chain mark-for-masquerade { meta mark set meta mark | 0x4000; }
	chain masquerading { meta mark & 0x4000 == 0 return
		meta mark set meta mark ^ 0x4000
		masquerade fully-random; }` + service + `
	map service-ips { type ipv4_addr . inet_proto . inet_service : verdict; comment "ClusterIP, ExternalIP and LoadBalancer IP traffic"
		elements = { 10.96.0.10 . udp . 53 : goto service-web-udp, 10.96.0.10 . tcp . 53 : goto service-web-tcp` + ips.String() + ` }; }
	chain services { ip daddr . meta l4proto . th dport vmap @service-ips
		ip daddr @nodeport-ips meta l4proto . th dport vmap @service-nodeports; }
	chain firewall-check { ip daddr . meta l4proto . th dport vmap @firewall-ips; }
	chain service-endpoints-check { ip daddr . meta l4proto . th dport vmap @no-endpoint-services; }
	chain nodeport-endpoints-check { ip daddr @nodeport-ips meta l4proto . th dport vmap @no-endpoint-nodeports; }
	chain reject-chain { reject; }
	chain cluster-ips-check { ip daddr @cluster-ips reject comment "Reject traffic to invalid ports of ClusterIPs"
		ip daddr 10.96.0.0/16 drop comment "Drop traffic to unallocated ClusterIPs"; }
	chain filter-prerouting-pre-dnat { type filter hook prerouting priority dstnat - 10; ct state new jump firewall-check; }
	chain filter-output-pre-dnat { type filter hook output priority -110; ct state new jump firewall-check; }
	chain filter-input { type filter hook input priority filter; ct state new jump nodeport-endpoints-check
		ct state new jump service-endpoints-check; }
	chain filter-forward { type filter hook forward priority filter; ct state new jump service-endpoints-check
		ct state new jump cluster-ips-check; }
	chain filter-output { type filter hook output priority filter; ct state new jump service-endpoints-check; }
	chain filter-output-post-dnat { type filter hook output priority -90; ct state new jump cluster-ips-check; }
	chain nat-prerouting { type nat hook prerouting priority dstnat; jump services; }
	chain nat-output { type nat hook output priority -100; jump services; }
	chain nat-postrouting { type nat hook postrouting priority srcnat; jump masquerading; }
}
`
}

// loadProxy writes the rules of kube-proxy on a node.
func (c *cluster) loadProxy(t *testing.T, i int, rules string, program []string) {
	t.Helper()
	rules = strings.NewReplacer("192.0.10.I", fmt.Sprintf("192.0.10.%d", i+1), "fd00:c8::I", fmt.Sprintf("fd00:c8::%d", i+1)).Replace(rules)
	testenv.Must(t, testenv.Load(t, c.nodes[i], rules, program[0], program[1:]...))
}

// On nodes with the rules of kube-proxy, traffic to a Service is carried on both nodes, over UDP
// and TCP; also while kube-proxy writes its rules anew, and a thousand more.
func TestEnableServices(t *testing.T) {
	for _, w := range wirings[:4] {
		for _, proxy := range proxies {
			t.Run(w.name+", "+proxy.name, func(t *testing.T) {
				c := newCluster(t, w.node, w.pod)
				for i := range c.nodes {
					c.loadProxy(t, i, proxy.rules(0), proxy.program)
				}
				exchange := c.flowTo(t, serviceAddress)
				testenv.Must(t, exchange())
				connect := c.echoTCP(t)
				enabled := [2]func(){}
				for i := range c.nodes {
					cmd := c.enable(t, i, "0")
					enabled[i] = func() { terminate(t, cmd) }
				}
				c.forgetConnections(t) // nobody would say when those end that were there before
				c.untilCarried(t, exchange)
				c.untilCarried(t, oncePerRound(connect))
				if s := c.wholeStatus(t, 0); len(s.Pods) != 1 || len(s.Peers) != 1 || s.Pods[0].Carried == 0 || s.Pods[0].Translated == 0 ||
					s.Peers[0].FlowCount != s.Pods[0].FlowCount || s.Pods[0].Device != "veth0" || s.Pods[0].Flows < s.Pods[0].Carried {
					t.Errorf("flows of pods %+v, and of peers %+v", s.Pods, s.Peers)
				}
				if s := c.wholeStatus(t, 1); len(s.Pods) != 1 || s.Pods[0].Carried == 0 || s.Pods[0].Translated > 0 {
					t.Errorf("on the other node, flows of pods %+v", s.Pods)
				}
				if s := c.status(t, 0).State; s.Unreplied != "" {
					t.Errorf("one-way UDP stays slow: %s", s.Unreplied)
				}
				c.loadProxy(t, 0, proxy.rules(1000), proxy.program)
				testenv.Must(t, exchange())
				c.untilCarried(t, exchange)
				for _, end := range enabled {
					end()
				}
				testenv.Must(t, exchange())
			})
		}
	}
}

// A state is reported when it changes, and not whenever kube-proxy writes its rules anew: one that it
// names has another handle then.
func TestReportsChangesOnly(t *testing.T) {
	c := newCluster(t, wirings[0].node, wirings[0].pod)
	proxy := proxies[0]
	// With a rule that may be worse for what was answered.
	rules := strings.Replace(proxy.rules(0), "-A KUBE-FORWARD", "-A KUBE-FORWARD -m conntrack --ctstate NEW -j ACCEPT\n-A KUBE-FORWARD", 1)
	c.loadProxy(t, 0, rules, proxy.program)
	testenv.Must(t, c.flow(t)())
	reported := &testenv.Output{}
	c.startRole(t, 0, "enable", reported, new(syscall.SysProcAttr), "0")
	named := ""
	awaitNamed := func() {
		t.Helper()
		var s *fastpath.State
		for end := time.Now().Add(testenv.Timeout); ; time.Sleep(10 * time.Millisecond) {
			if s = c.status(t, 0).State; s != nil && s.Pods == 1 && s.Unreplied != "" && s.Unreplied != named && reported.String() != "" {
				named = s.Unreplied
				return
			}
			if time.Now().After(end) {
				t.Fatalf("no state names another rule than %q: %+v", named, s)
			}
		}
	}
	awaitNamed()
	first := reported.String()
	for range 5 {
		c.loadProxy(t, 0, rules, append(slices.Clone(proxy.program), "--noflush")) // as kube-proxy does
		awaitNamed()
	}
	if now := reported.String(); now != first {
		t.Errorf("reported at first:\n%s\nand now:\n%s", first, now)
	}
}

// forgetConnections waits for the daemons, and has the nodes forget all connections.
func (c *cluster) forgetConnections(t *testing.T) {
	t.Helper()
	for i, n := range c.nodes {
		c.untilRunning(t, i, true)
		flushConntrack(t, n)
	}
}

func flushConntrack(t *testing.T, n *netcfg.Namespace) {
	t.Helper()
	testenv.InNetns(t, n.Path(), func() error {
		track, err := conntrack.Dial(nil)
		if err != nil {
			return err
		}
		return errors.Join(track.Flush(), track.Close())
	})
}

// oncePerRound does a thing once in the fifty exchanges of a round.
func oncePerRound(do func() error) func() error {
	n := 0
	return func() error {
		if n++; n%50 != 1 {
			return nil
		}
		return do()
	}
}

// serveTCP answers over TCP at an address in a pod.
func serveTCP(t *testing.T, pod *netcfg.Namespace, address string) {
	t.Helper()
	var listener net.Listener
	testenv.InNetns(t, pod.Path(), func() (err error) {
		listener, err = net.Listen("tcp", address)
		return err
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for traffic.EchoTCP(listener) == nil {
		}
	}()
	t.Cleanup(func() { listener.Close(); <-done })
}

// echoTCP answers over TCP in the second pod; connect carries content from the first one to the
// Service, and back.
func (c *cluster) echoTCP(t *testing.T) (connect func() error) {
	t.Helper()
	serveTCP(t, c.pods[1], podPort)
	return func() error {
		return host.Do(c.pods[0].Path(), func() error {
			return traffic.CarryTCP(netip.MustParseAddr("10.244.1.2"), netip.MustParseAddrPort(serviceAddress))
		})
	}
}
