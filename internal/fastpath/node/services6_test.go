package node_test

import (
	"bytes"
	"errors"
	"net/netip"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
	"github.com/venturi-net/venturi/internal/testenv/traffic"
)

// The Service of these tests over IPv6, whose pod is the second node's.
const (
	service6 = "[fd00:96::10]:53"
	podPort6 = "[fd00:f4:2::2]:7777"
)

// proxies6 are the rules that kube-proxy writes for IPv6: the same, but for addresses and the names of what
// is of a version of IP. It blocks connections to 127.0.0.0/8 only over IPv4.
var proxies6 = []struct {
	name    string
	program []string
	rules   func(others int) string
}{
	{"iptables", []string{"ip6tables-nft-restore"}, func(others int) string { return overIPv6(iptablesProxy(others)) }},
	{"nftables", []string{"nft", "-f", "-"}, func(others int) string { return overIPv6(nftablesProxy(others)) }},
}

var (
	localnetRule   = regexp.MustCompile(`(?m)^-A KUBE-FIREWALL .*\n`)
	virtualAddress = regexp.MustCompile(`10\.96\.(\d+)\.(\d+)`)
)

func overIPv6(rules string) string {
	rules = strings.ReplaceAll(localnetRule.ReplaceAllString(rules, ""), "10.96.0.0/16", "fd00:96::/96")
	return strings.NewReplacer(
		"10.244.0.0/16", "fd00:f4::/32", "10.244.2.2:7777", podPort6, "10.244.2.2", "fd00:f4:2::2", "/32", "/128", "192.0.10.I", "fd00:c8::I",
		"ip daddr", "ip6 daddr", "ip saddr", "ip6 saddr", "table ip ", "table ip6 ", "ipv4_addr", "ipv6_addr",
	).Replace(virtualAddress.ReplaceAllString(rules, "fd00:96::$1:$2"))
}

// service6Flows begins flows from the first pod to the Service, over UDP and TCP: each call is an exchange.
func (c *cluster) service6Flows(t *testing.T) (exchange, connect func() error) {
	t.Helper()
	c.answerAt(t, podPort6)
	send := c.exchangesFrom(t, "[fd00:f4:1::2]:0", service6)
	serveTCP(t, c.pods[1], podPort6)
	return func() error { return send(testenv.Timeout) }, func() error {
		return host.Do(c.pods[0].Path(), func() error {
			return traffic.CarryTCP(netip.MustParseAddr("fd00:f4:1::2"), netip.MustParseAddrPort(service6))
		})
	}
}

// On nodes with the rules of kube-proxy for IPv6, traffic to a Service is carried on both nodes, over UDP and
// TCP, on the wire and in VXLAN; also while kube-proxy writes its rules anew, and a thousand more. In short, each wiring
// has the rules of one kind, and each kind a bridge and single pods, with and without a tunnel; in short in a guest,
// one wiring with a tunnel runs: its packets meet what translates on the way to the host itself.
func TestEnableServicesOverIPv6(t *testing.T) {
	for i, w := range dualStack {
		for j, proxy := range proxies6 {
			switch {
			case agenttest.InShortGuest() && (w.name != "Flannel vxlan" || proxy.name != "nftables"):
				continue
			case !agenttest.InFull() && j != (i+i/2)%len(proxies6):
				continue
			}
			t.Run(w.name+", "+proxy.name, func(t *testing.T) {
				c := newCluster(t, w.node+wire6, w.pod)
				for i := range c.nodes {
					c.loadProxy(t, i, proxy.rules(0), proxy.program)
				}
				exchange, connect := c.service6Flows(t)
				testenv.Must(t, errors.Join(exchange(), connect()))
				before := [2]string{c.snapshot(t, 0), c.snapshot(t, 1)}
				processes := c.enable6(t)
				c.untilCounted(t, c.carried6, exchange)
				c.untilCounted(t, c.carried6, oncePerRound(connect))
				for i, translated := range []bool{true, false} {
					s := c.wholeStatus(t, i).IPv6
					// Whatever begins an epoch, what is sent in the next one is learned anew.
					for end := time.Now().Add(testenv.Timeout); len(s.Pods) == 1 && s.Pods[0].Carried == 0 && time.Now().Before(end); s = c.wholeStatus(t, i).IPv6 {
						testenv.Must(t, exchange())
					}
					if len(s.Pods) != 1 || s.Pods[0].Carried == 0 || (s.Pods[0].Translated > 0) != translated {
						t.Errorf("on node %d, flows of pods %+v; epochs %+v", i, s.Pods, s.State.Epochs)
					}
					if s.State.Unreplied != "" {
						t.Errorf("on node %d, one-way UDP stays slow: %s", i, s.State.Unreplied)
					}
				}
				c.loadProxy(t, 0, proxy.rules(1000), proxy.program)
				testenv.Must(t, exchange())
				c.untilCounted(t, c.carried6, exchange)
				c.loadProxy(t, 0, proxy.rules(0), proxy.program)
				terminate(t, processes...)
				testenv.Must(t, exchange())
				for i := range before {
					c.check(t, i, before[i])
				}
			})
		}
	}
}

// enable6 enables IPv6 on both nodes, as words say, and has them forget all connections then: nobody would say
// when those end that were there before.
func (c *cluster) enable6(t *testing.T, words ...string) (processes []*exec.Cmd) {
	t.Helper()
	for i := range c.nodes {
		processes = append(processes, c.start(t, i, new(syscall.SysProcAttr), append([]string{"0", "ipv6"}, words...)...))
	}
	for i, n := range c.nodes {
		for limit := time.Now().Add(testenv.Timeout); ; time.Sleep(5 * time.Millisecond) {
			s := c.status(t, i).IPv6
			if s != nil && s.State != nil && s.State.Pods == 1 {
				break
			}
			if time.Now().After(limit) {
				t.Fatalf("after %v, the status of node %d is %+v", testenv.Timeout, i, s)
			}
		}
		flushConntrack(t, n)
	}
	return processes
}

// Told to leave translated connections alone, it carries none over IPv6 either, and others still.
func TestEnableWithoutServicesOverIPv6(t *testing.T) {
	w := dualStack[0]
	c := newCluster(t, w.node+wire6, w.pod)
	c.loadProxy(t, 0, proxies6[1].rules(0), proxies6[1].program)
	toService, _ := c.service6Flows(t)
	send := c.exchangesFrom(t, "[fd00:f4:1::2]:0", podPort6)
	direct := func() error { return send(testenv.Timeout) }
	testenv.Must(t, errors.Join(toService(), direct()))
	processes := c.enable6(t, "nonat")
	c.untilCounted(t, c.carried6, direct)
	out, in := c.carried6(t, 0)
	for range 300 {
		testenv.Must(t, toService())
	}
	if nowOut, nowIn := c.carried6(t, 0); nowOut != out || nowIn != in {
		t.Errorf("of a translated flow, %d packets were carried out and %d in", nowOut-out, nowIn-in)
	}
	terminate(t, processes...)
}

// What the fast path would send of a Service's traffic over IPv6 is what the network sends, out of a pod and
// into one.
func TestShadowOfServicesOverIPv6(t *testing.T) {
	for _, w := range dualStack {
		t.Run(w.name, func(t *testing.T) {
			c := newCluster(t, w.node+wire6, w.pod)
			testenv.Shell(t, c.nodes[0].Path(), `nft '
				table ip6 kube {
					chain services { type nat hook prerouting priority dstnat; ip6 daddr fd00:96::10 dnat to fd00:f4:2::2; }
				}'`)
			c.answerAt(t, podPort6)
			udp, tcp := c.exchangesFrom(t, "[fd00:f4:1::2]:0", "[fd00:96::10]:7777"), c.stream(t, "[fd00:96::10]:7778")
			exchange := func() error { return errors.Join(udp(testenv.Timeout), tcp()) }
			testenv.Must(t, exchange())
			r := c.shadow(t, 0, "2", "ipv6").result(t, exchange)
			if r.Flows < 2 || r.IsDifferent() || r.NotForwarded() > 0 || r.Out.Equal == 0 || r.In.Equal == 0 {
				t.Errorf("found %+v", r)
			}
		})
	}
}

// What a pod sends to a Service over IPv6 is on the wire what it was before it was carried, byte for byte, and
// so is in the pod what comes back: with checksums that the pod has written, with those that are left to the
// device, and without.
func TestServiceOverIPv6IsSame(t *testing.T) {
	for i, headers := range map[int]int{0: 14 + 40 + 8, 2: 14 + 40 + 8 + 8 + 14 + 40 + 8} {
		w := dualStack[i]
		t.Run(w.name, func(t *testing.T) {
			c := newCluster(t, w.node+wire6, w.pod)
			c.loadProxy(t, 0, proxies6[0].rules(0), proxies6[0].program)
			c.answerAt(t, podPort6)
			client := c.openUDP(t, c.pods[0], "[fd00:f4:1::2]:7000", service6)
			drain := func() {
				testenv.Must(t, client.SetReadDeadline(time.Now().Add(time.Millisecond)))
				for err := error(nil); err == nil; {
					_, err = client.Read(make([]byte, 64))
				}
			}
			exchange := func() error {
				_, err := client.Write([]byte("ping"))
				if err == nil {
					err = client.SetReadDeadline(time.Now().Add(testenv.Timeout))
				}
				if err == nil {
					_, err = client.Read(make([]byte, 64))
				}
				return err
			}
			testenv.Must(t, exchange())
			kinds := []datagram6{
				{class: 0, hops: 64, length: 5}, {class: 0xb8, hops: 64, length: 60}, {class: 1, hops: 64, length: 60}, {class: 3, hops: 2, length: 33},
				{hops: 64, length: 7, sum: fullSum}, {hops: 64, length: 1000, sum: fullSum}, {class: 2, hops: 9, length: 64, sum: fullSum}, {hops: 64, length: 7, sum: noSum}, {hops: 255, length: 1430 - 48},
			}
			frames := func() (all [][]byte) {
				wire, back := listen(t, c.nodes[1], headers), listen(t, c.pods[0], 14+40+8)
				for n, k := range kinds {
					payload := bytes.Repeat([]byte{byte(0x80 + n)}, k.length)
					k.send(t, c.pods[0], client, payload)
					frame, err := wire.frameWith(payload)
					if err != nil {
						t.Fatalf("%+v: %v", k, err)
					}
					all = append(all, frame)
					if k.length > 64 || k.sum == noSum || k.hops < 3 { // the answer has no more, and these get none
						continue
					}
					if frame, err = back.frameWith(payload); err != nil {
						t.Fatalf("the answer to %+v: %v", k, err)
					}
					all = append(all, frame)
				}
				drain()
				return all
			}
			before := frames()
			processes := c.enable6(t)
			c.untilCounted(t, c.carried6, exchange)
			out, in := c.carried6(t, 0)
			now := frames()
			if nowOut, nowIn := c.carried6(t, 0); nowOut < out+uint64(len(kinds)) || nowIn < in+uint64(len(before)-len(kinds)) {
				t.Errorf("%d packets were carried out and %d in", nowOut-out, nowIn-in)
			}
			for i := range before {
				if !bytes.Equal(before[i], now[i]) {
					t.Errorf("frame %d: carried it is\n%x, and it was\n%x", i, now[i], before[i])
				}
			}
			terminate(t, processes...)
		})
	}
}

// datagram6 is one over IPv6. Its checksum is left to the device, unless sum says otherwise.
type datagram6 struct {
	class, hops, length int
	sum                 int
}

const noSum, fullSum = 1, 2

// send sends it from a pod, as the socket would.
func (d datagram6) send(t *testing.T, pod *netcfg.Namespace, socket interface {
	syscall.Conn
	Write([]byte) (int, error)
}, payload []byte) {
	t.Helper()
	if d.sum == fullSum {
		from, to := netip.MustParseAddr("fd00:f4:1::2"), netip.MustParseAddrPort(service6)
		ip := &layers.IPv6{Version: 6, TrafficClass: uint8(d.class), HopLimit: uint8(d.hops), NextHeader: layers.IPProtocolUDP, SrcIP: from.AsSlice(), DstIP: to.Addr().AsSlice()}
		udp := &layers.UDP{SrcPort: 7000, DstPort: layers.UDPPort(to.Port())}
		testenv.Must(t, udp.SetNetworkLayerForChecksum(ip))
		b := gopacket.NewSerializeBuffer()
		testenv.Must(t, gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, ip, udp, gopacket.Payload(payload)))
		testenv.InNetns(t, pod.Path(), func() error {
			fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return unix.Sendto(fd, b.Bytes(), 0, &unix.SockaddrInet6{Addr: to.Addr().As16()})
		})
		return
	}
	raw, err := socket.SyscallConn()
	testenv.Must(t, err)
	testenv.Must(t, raw.Control(func(fd uintptr) {
		err = errors.Join(unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_TCLASS, d.class),
			unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_UNICAST_HOPS, d.hops),
			unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_NO_CHECK6_TX, d.sum&noSum))
	}))
	testenv.Must(t, err)
	_, err = socket.Write(payload)
	testenv.Must(t, err)
}
