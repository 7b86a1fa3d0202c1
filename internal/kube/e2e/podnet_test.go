package e2e_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/traffic"
)

// podNet is the network namespace of a pod, in which tests open sockets.
type podNet struct {
	node  string
	addr  netip.Addr
	netns string // its file
}

// podNets are those of the pods of a namespace, by the pods' names.
func (p *plugin) podNets(t testing.TB, namespace string) map[string]podNet {
	t.Helper()
	nets := map[string]podNet{}
	for _, pod := range p.running(t, namespace, "") {
		nets[pod.Metadata.Name] = podNet{pod.Spec.NodeName, pod.Status.PodIP, p.netnsOf(t, pod)}
	}
	return nets
}

// netnsOf finds the file that the container runtime has bound a pod's network namespace to.
func (p *plugin) netnsOf(t testing.TB, pod runningPod) string {
	t.Helper()
	for _, n := range p.Nodes {
		if n.Name != pod.Spec.NodeName {
			continue
		}
		files, err := filepath.Glob(fmt.Sprintf("/proc/%d/root/run/netns/*", n.PID))
		testenv.Must(t, err)
		for _, file := range files {
			found := false
			err := host.Do(file, func() error {
				addrs, err := net.InterfaceAddrs()
				found = slices.ContainsFunc(addrs, func(a net.Addr) bool {
					prefix, err := netip.ParsePrefix(a.String())
					return err == nil && prefix.Addr() == pod.Status.PodIP
				})
				return err
			})
			if err == nil && found { // an error: another pod's has just gone
				return file
			}
		}
	}
	t.Fatalf("no network namespace has the address of %+v", pod)
	return ""
}

// Ports of the servers below.
const (
	httpPort = 8080
	grpcPort = 8081
	udpPort  = 8082
)

// serve answers in a pod at each of these ports until the test is over.
func (n podNet) serve(t *testing.T) {
	t.Helper()
	listen := func(port uint16) (l net.Listener) {
		testenv.InNetns(t, n.netns, func() (err error) {
			l, err = net.Listen("tcp4", netip.AddrPortFrom(n.addr, port).String())
			return err
		})
		return l
	}
	echo := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL.Path) })}
	stream := grpc.NewServer(grpc.ForceServerCodec(rawCodec{}), grpc.UnknownServiceHandler(echoStream))
	ended := make(chan struct{}, 2)
	httpListener, grpcListener := listen(httpPort), listen(grpcPort)
	go func() { _ = echo.Serve(httpListener); ended <- struct{}{} }()
	go func() { _ = stream.Serve(grpcListener); ended <- struct{}{} }()
	t.Cleanup(func() {
		_ = echo.Close()
		stream.Stop()
		<-ended
		<-ended
	})
	t.Cleanup(traffic.EchoUDP(n.openUDP(t, netip.AddrPortFrom(n.addr, udpPort), netip.AddrPort{})))
}

// openUDP opens a socket in a pod, which is connected if there is a remote address.
func (n podNet) openUDP(t *testing.T, local, remote netip.AddrPort) (conn *net.UDPConn) {
	t.Helper()
	testenv.InNetns(t, n.netns, func() (err error) {
		if remote.IsValid() {
			conn, err = net.DialUDP("udp4", net.UDPAddrFromAddrPort(local), net.UDPAddrFromAddrPort(remote))
		} else {
			conn, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(local))
		}
		return err
	})
	return conn
}

// dial opens a connection from a pod.
func (n podNet) dial(ctx context.Context, to string) (conn net.Conn, err error) {
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(n.addr, 0))}
	err = host.Do(n.netns, func() error {
		conn, err = d.DialContext(ctx, "tcp4", to)
		return err
	})
	return conn, err
}

// rawCodec leaves messages of gRPC as they are.
type rawCodec struct{}

func (rawCodec) Name() string                  { return "raw" }
func (rawCodec) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }
func (rawCodec) Unmarshal(message []byte, v any) error {
	*v.(*[]byte) = slices.Clone(message)
	return nil
}

func echoStream(_ any, stream grpc.ServerStream) error {
	for {
		var message []byte
		if err := stream.RecvMsg(&message); err != nil {
			return err
		}
		if err := stream.SendMsg(&message); err != nil {
			return err
		}
	}
}

// exchangeLimit is for how long an exchange of a connection may take before it counts as broken.
const exchangeLimit = 30 * time.Second

// connection is one over TCP that exchanges requests and answers until it is ended. It is never opened
// again: whatever breaks it ends it.
type connection struct {
	name      string
	exchanges atomic.Int64
	longest   atomic.Int64 // ns that an exchange took
	ended     chan struct{}
	err       error // set when it has ended
}

// connect opens one that is used until the test is over.
func connect(t *testing.T, name string, open func(ctx context.Context) (exchange func(number string) error, err error)) *connection {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	c := &connection{name: name, ended: make(chan struct{})}
	go func() {
		defer close(c.ended)
		exchange, err := open(ctx)
		for number := 0; err == nil; number++ {
			began := time.Now()
			overdue := time.AfterFunc(exchangeLimit, cancel)
			err = exchange(strconv.Itoa(number))
			overdue.Stop()
			c.longest.Store(max(c.longest.Load(), int64(time.Since(began))))
			if err == nil {
				c.exchanges.Add(1)
				time.Sleep(time.Millisecond)
			}
		}
		c.err = err
	}()
	t.Cleanup(func() { cancel(); <-c.ended })
	return c
}

// advance waits for so many more exchanges.
func (c *connection) advance(t *testing.T, count int64) {
	t.Helper()
	from := c.exchanges.Load()
	await(t, c.name+" goes on", func() bool {
		select {
		case <-c.ended:
			t.Fatalf("%s broke after %d exchanges, of which the longest took %v: %v", c.name, c.exchanges.Load(), time.Duration(c.longest.Load()), c.err)
		default:
		}
		return c.exchanges.Load() >= from+count
	})
}

// keepAlive asks for pages over one connection of HTTP, as curl does when it is given many addresses.
// The client of net/http closes a connection where a busy machine delays it by 50 ms.
func (n podNet) keepAlive(t *testing.T, to netip.AddrPort) *connection {
	return connect(t, "HTTP to "+to.String(), func(ctx context.Context) (func(string) error, error) {
		conn, err := n.dial(ctx, to.String())
		if err != nil {
			return nil, err
		}
		context.AfterFunc(ctx, func() { conn.Close() })
		answers := bufio.NewReader(conn)
		return func(number string) error {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+to.String()+"/"+number, nil)
			if err != nil {
				return err
			}
			if err := request.Write(conn); err != nil {
				return err
			}
			answer, err := http.ReadResponse(answers, request)
			if err != nil {
				return err
			}
			defer answer.Body.Close()
			text, err := io.ReadAll(answer.Body)
			if err == nil && string(text) != "/"+number {
				err = fmt.Errorf("the answer to %s is %q", number, text)
			}
			return err
		}, nil
	})
}

// stream sends messages over one stream of gRPC, which come back.
func (n podNet) stream(t *testing.T, to netip.AddrPort) *connection {
	return connect(t, "gRPC to "+to.String(), func(ctx context.Context) (func(string) error, error) {
		conn, err := grpc.NewClient("passthrough:///"+to.String(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(n.dial))
		if err != nil {
			return nil, err
		}
		context.AfterFunc(ctx, func() { conn.Close() })
		stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/test/Echo", grpc.ForceCodec(rawCodec{}), grpc.WaitForReady(true))
		if err != nil {
			return nil, err
		}
		return func(number string) error {
			sent, got := []byte(number), []byte(nil)
			if err := stream.SendMsg(&sent); err != nil {
				return err
			}
			if err := stream.RecvMsg(&got); err != nil {
				return err
			}
			if string(got) != number {
				return fmt.Errorf("%q came back for %q", got, number)
			}
			return nil
		}, nil
	})
}

// datagrams opens a UDP flow whose datagrams are answered, until the test is over. exchange sends one, and
// waits for its answer.
func (n podNet) datagrams(t *testing.T, to netip.AddrPort) (exchange func(wait time.Duration) error) {
	t.Helper()
	conn := n.openUDP(t, netip.AddrPortFrom(n.addr, 0), to)
	t.Cleanup(func() { conn.Close() })
	number := 0
	return func(wait time.Duration) error {
		number++
		text := strconv.Itoa(number)
		if err := conn.SetReadDeadline(time.Now().Add(wait)); err != nil {
			return err
		}
		if _, err := conn.Write([]byte(text)); err != nil {
			return err
		}
		for buf := make([]byte, 64); ; { // answers that come late are not this one's
			if got, err := conn.Read(buf); err != nil || string(buf[:got]) == text {
				return err
			}
		}
	}
}
