package engine_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/load/engine"
	"github.com/venturi-net/venturi/internal/testenv"
)

// ownNetwork makes a network namespace for the test, and gives the file of it and a function
// that reads files of its /proc/net.
func ownNetwork(t *testing.T) (path string, read func(file string) string) {
	t.Helper()
	path = testenv.UnnamedNetns(t)
	return path, func(file string) string {
		text, err := os.ReadFile(strings.TrimSuffix(path, "ns/net") + "net/" + file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
}

// counter reads a counter of TCP out of /proc/net/snmp.
func counter(t *testing.T, snmp, name string) int64 {
	t.Helper()
	var names []string
	for line := range strings.Lines(snmp) {
		fields := strings.Fields(line)
		if fields[0] != "Tcp:" {
			continue
		}
		if names == nil {
			names = fields
			continue
		}
		for i := range names {
			if names[i] == name {
				n, err := strconv.ParseInt(fields[i], 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				return n
			}
		}
	}
	t.Fatalf("no counter %s in %s", name, snmp)
	return 0
}

// opens counts the connections that were opened in a namespace since a slice began.
type opens struct {
	t       *testing.T
	read    func(string) string
	from    int64
	counted []int64
}

func (o *opens) Begin(int) { o.from = counter(o.t, o.read("snmp"), "ActiveOpens") }
func (o *opens) End(int) {
	o.counted = append(o.counted, counter(o.t, o.read("snmp"), "ActiveOpens")-o.from)
}

// TestConnections holds a slice's count of connections against the kernel's, on more
// connections than there are ports, and wants them waited for by the server's end, of
// each pair of ends.
func TestConnections(t *testing.T) {
	const flows = 3
	ns, read := ownNetwork(t)
	p := load.Plan{
		Token: 0xfeed, Load: "tcp_crr", Size: 8, Flows: flows, Slice: 20 * time.Millisecond, Head: 2 * time.Millisecond,
		Arms:      []load.Arm{{Name: "a", ServerPort: 26000, ClientPort: 27000}},
		ClientCPU: -1, ServerCPU: -1,
	}
	for i := range 2 {
		p.Arms[0].Ends = append(p.Arms[0].Ends, load.Pair{
			From: host.Endpoint{Namespace: ns, Addr: netip.AddrFrom4([4]byte{127, 0, 1, byte(i + 1)})},
			To:   host.Endpoint{Namespace: ns, Addr: netip.AddrFrom4([4]byte{127, 0, 2, byte(i + 1)})},
		})
	}
	for range 20 {
		p.Schedule = append(p.Schedule, []int{0})
	}
	s, err := engine.Serve(p, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	seen := opens{t: t, read: read}
	results, err := engine.Run(context.Background(), p, &seen, nil)
	if err != nil {
		t.Fatal(err)
	}
	var all int64
	var wrong []string
	for i, r := range results {
		if r.Err != nil || r.Latency.Replies == 0 {
			t.Fatalf("slice %d: %+v, %v", i, r.Latency, r.Err)
		}
		if i >= len(seen.counted) {
			t.Fatal("a slice was not seen")
		}
		l := r.Latency
		if got, want := seen.counted[i], l.Requests+l.HeadReplies+flows; l.Lost == 0 && got != want {
			wrong = append(wrong, fmt.Sprintf("slice %d: the kernel opened %d connections, want %d and %d in the head, %d to end it",
				i, got, l.Requests, l.HeadReplies, flows))
		}
		all += l.Requests
	}
	if len(wrong) > 1 { // on a busy machine, a slice may end while a connection is being opened
		t.Error(strings.Join(wrong, "\n"))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	waiting := map[string]int{} // by local address and port, hexadecimal
	for line := range strings.Lines(read("tcp")) {
		if fields := strings.Fields(line); len(fields) > 3 && fields[3] == "06" {
			waiting[fields[1]]++
		}
	}
	crr, err := load.Find(p.Load)
	if err != nil {
		t.Fatal(err)
	}
	ports := crr.ClientPorts(flows)
	if len(waiting) != flows {
		t.Errorf("in TIME_WAIT: %v, want some at each of %d ports", waiting, flows)
	}
	for at, n := range waiting {
		addr, port, _ := strings.Cut(at, ":")
		flow, _ := strconv.ParseInt(port, 16, 32)
		flow -= 26000
		if all > 4*flows*int64(ports) && n < ports/2 {
			t.Errorf("in TIME_WAIT: %d at %s, after %d connections on all flows: want %d ports used in turn", n, at, all, ports)
		}
		if flow < 0 || flow >= flows || n > ports {
			t.Errorf("in TIME_WAIT: %d at %s, want at most %d, at the server's end", n, at, ports)
		} else if want := fmt.Sprintf("%02X02007F", flow%2+1); addr != want {
			t.Errorf("flow %d is served at %s, want %s", flow, addr, want)
		}
	}
	t.Logf("%d connections in %v, over %d ports", all, time.Duration(len(results))*p.Slice, flows*ports)
}
