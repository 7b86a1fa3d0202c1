package node_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/node"
	"github.com/venturi-net/venturi/internal/fastpath/shadow"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/traffic"
)

// shadowing is a process that compares packets on a node.
type shadowing struct {
	*exec.Cmd
	out bytes.Buffer
}

func (c *cluster) shadow(t *testing.T, i int, args ...string) *shadowing {
	t.Helper()
	s := &shadowing{}
	s.Cmd = c.startRole(t, i, "shadow", &s.out, new(syscall.SysProcAttr), args...)
	return s
}

// result waits until the process has ended by itself, while something is sent.
func (s *shadowing) result(t *testing.T, exchange func() error) (r shadow.Result) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- s.Wait() }()
	for end := time.Now().Add(2 * testenv.Timeout); ; time.Sleep(time.Millisecond) {
		testenv.Must(t, exchange())
		select {
		case err := <-done:
			testenv.Must(t, err)
			testenv.Must(t, json.Unmarshal(s.out.Bytes(), &r))
			return r
		default:
		}
		if time.Now().After(end) {
			t.Fatalf("after %v, it has not ended", 2*testenv.Timeout)
		}
	}
}

// stream opens a TCP connection from the first pod to an address that leads to the second. exchange
// sends a message, and waits for its echo.
func (c *cluster) stream(t *testing.T, address string) (exchange func() error) {
	t.Helper()
	_, exchange = c.dialStream(t, address)
	return exchange
}

// dialStream is the same, with the connection.
func (c *cluster) dialStream(t *testing.T, address string) (conn net.Conn, exchange func() error) {
	t.Helper()
	var listener net.Listener
	network := "tcp4"
	if strings.HasPrefix(address, "[") {
		network = "tcp6"
	}
	testenv.InNetns(t, c.pods[1].Path(), func() (err error) {
		listener, err = net.Listen(network, ":7778")
		return err
	})
	t.Cleanup(func() { listener.Close() })
	go func() {
		if conn, err := listener.Accept(); err == nil {
			_, _ = io.Copy(conn, conn)
			conn.Close()
		}
	}()
	testenv.InNetns(t, c.pods[0].Path(), func() (err error) {
		conn, err = net.DialTimeout(network, address, testenv.Timeout)
		return err
	})
	t.Cleanup(func() { conn.Close() })
	message := bytes.Repeat([]byte("message "), 500) // more than one packet
	return conn, func() error {
		if err := conn.SetDeadline(time.Now().Add(testenv.Timeout)); err != nil {
			return err
		}
		if _, err := conn.Write(message); err != nil {
			return err
		}
		_, err := io.ReadFull(conn, make([]byte, len(message)))
		return err
	}
}

// In every wiring, what the fast path would send is what the network sends, out of a pod and into
// one, over UDP and TCP, also to a Service. Meanwhile and afterwards the node is as before.
func TestShadow(t *testing.T) {
	for _, w := range supportedWirings() {
		t.Run(w.name, w.checkShadow)
	}
}

func (w wiring) checkShadow(t *testing.T) {
	// As the CNI plugins do: what comes with an outer checksum takes the slow path.
	c := newCluster(t, strings.ReplaceAll(w.node, "nolearning", "nolearning noudpcsum"), w.pod)
	udp, tcp := c.flow(t), c.stream(t, "10.244.2.2:7778")
	exchange := func() error {
		if err := udp(); err != nil {
			return err
		}
		return tcp()
	}
	testenv.Must(t, exchange())
	before := c.snapshot(t, 0)
	s := c.shadow(t, 0, "2")
	r := s.result(t, exchange)
	if r.Flows != 2 || r.IsDifferent() || r.NotForwarded() > 0 || r.Out.Equal == 0 || r.In.Equal == 0 {
		t.Errorf("found %+v", r)
	}
	c.check(t, 0, before)
}

// With tc filters, as on older kernels, and connections to a Service.
func TestShadowOfServices(t *testing.T) {
	c := newCluster(t, strings.ReplaceAll(wirings[0].node, "nolearning", "nolearning noudpcsum"), wirings[0].pod)
	testenv.Shell(t, c.nodes[0].Path(), `nft '
		table ip kube {
			chain services { type nat hook prerouting priority dstnat; ip daddr 10.96.0.10 dnat to 10.244.2.2; }
		}'`)
	exchange := c.stream(t, "10.96.0.10:7778")
	testenv.Must(t, exchange())
	r := c.shadow(t, 0, "1", "filters").result(t, exchange)
	if r.Flows != 1 || r.IsDifferent() || r.NotForwarded() > 0 || r.Out.Equal == 0 || r.In.Equal == 0 {
		t.Errorf("found %+v", r)
	}
}

// Datagrams that are to be cut are compared whole, both ways.
func TestShadowOfSegments(t *testing.T) {
	c := newCluster(t, strings.ReplaceAll(wirings[0].node, "nolearning", "nolearning noudpcsum"), wirings[0].pod)
	f := traffic.OpenBursts(t, host.Endpoint{Namespace: c.pods[0].Path(), Addr: netip.MustParseAddr("10.244.1.2")},
		host.Endpoint{Namespace: c.pods[1].Path(), Addr: netip.MustParseAddr("10.244.2.2")})
	payload := bytes.Repeat([]byte("datagram"), 2000)
	exchange := func() error { return errors.Join(f.Exchange(0, payload, 1200), f.Exchange(1, payload, 1200)) }
	testenv.Must(t, exchange())
	before := c.snapshot(t, 0)
	r := c.shadow(t, 0, "1").result(t, exchange)
	if r.Flows != 1 || r.IsDifferent() || r.NotForwarded() > 0 || r.Out.Equal == 0 || r.In.Equal == 0 {
		t.Errorf("found %+v", r)
	}
	c.check(t, 0, before)
}

// plant makes the fast path of a node wrong: the headers for its peers get another byte.
func (c *cluster) plant(t *testing.T, i, at int) {
	t.Helper()
	c.untilRunning(t, i, true)
	id, err := host.ID(c.nodes[i].Path())
	testenv.Must(t, err)
	table, err := ebpf.LoadPinnedMap(bpf.TableFile(filepath.Join(node.Root, strconv.FormatUint(id.Ino, 10), "bpf"), "peers"), nil)
	testenv.Must(t, err)
	defer table.Close()
	for number := range table.MaxEntries() {
		var p bpf.Peer
		testenv.Must(t, table.Lookup(number, &p))
		if p.Epoch == 0 {
			continue
		}
		p.Header[at/8] ^= 1 << (at % 8 * 8)
		testenv.Must(t, table.Put(number, p))
		return
	}
	t.Fatal("there is no peer")
}

// A difference is found, and named: the byte, what would be sent there, and what is.
func TestShadowFinds(t *testing.T) {
	c := newCluster(t, wirings[0].node, wirings[0].pod)
	exchange := c.flow(t)
	testenv.Must(t, exchange())
	const reserved = 49 // the last byte of the VXLAN header
	s := c.shadow(t, 0, "1")
	c.plant(t, 0, reserved)
	r := s.result(t, exchange)
	if r.Out.Equal > 0 || r.Out.Different == 0 || r.In.Different > 0 || len(r.Differences) != 1 {
		t.Fatalf("found %+v", r)
	}
	d := r.Differences[0]
	if d.Field != "tunnel header" || d.Offset != reserved || !strings.HasPrefix(d.Expected, "01 ") || !strings.HasPrefix(d.Actual, "00 ") || d.Packets != r.Out.Different {
		t.Errorf("found %+v", d)
	}
}

// enableRefused has packets compared while something is sent, and meanwhile is done, until the fast path
// is refused. It returns why.
func (c *cluster) enableRefused(t *testing.T, exchange func() error, meanwhile func()) string {
	t.Helper()
	var says bytes.Buffer
	command := testenv.RoleCommand(t, "enable")
	refused := exec.Command(command[0], append(command[1:], c.journals[0], "0", "shadow")...)
	refused.Stderr = io.MultiWriter(&says, t.Output())
	testenv.Must(t, host.Do(c.nodes[0].Path(), refused.Start))
	done := make(chan error, 1)
	go func() { done <- refused.Wait() }()
	meanwhile()
	for end := time.Now().Add(2 * testenv.Timeout); ; time.Sleep(time.Millisecond) {
		testenv.Must(t, exchange())
		select {
		case err := <-done:
			if err == nil {
				t.Error("it was not refused")
			}
			return says.String()
		default:
		}
		if time.Now().After(end) {
			_ = refused.Process.Kill()
			t.Fatalf("after %v, it has not ended", 2*testenv.Timeout)
		}
	}
}

// What differs is not carried: enable says how it differs, and removes everything. Without a
// difference it carries.
func TestEnableComparesFirst(t *testing.T) {
	c := newCluster(t, wirings[0].node, wirings[0].pod)
	exchange := c.flow(t)
	testenv.Must(t, exchange())
	before := c.snapshot(t, 0)
	if text := c.enableRefused(t, exchange, func() { c.plant(t, 0, 49) }); !strings.Contains(text, "tunnel header, from byte 49: 01") {
		t.Errorf("it says %s", text)
	}
	c.check(t, 0, before)
	var says bytes.Buffer
	first, second := c.startRole(t, 0, "enable", io.MultiWriter(&says, t.Output()), new(syscall.SysProcAttr), "0", "shadow"), c.enable(t, 1, "0")
	c.untilCarried(t, exchange)
	terminate(t, first, second)
	if text := says.String(); !strings.Contains(text, "compared: 1 flows of IPv4") {
		t.Errorf("it says %s", text)
	}
	c.check(t, 0, before)
}
