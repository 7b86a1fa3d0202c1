package path_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
	"github.com/venturi-net/venturi/internal/testenv/traffic"
)

// With more than two machines every pod reaches its counterpart on each other
// machine, whatever the path. In short, there is one of each driver: between two machines, there are all.
func TestFourMachines(t *testing.T) {
	testenv.Root(t)
	list := pick(t, first)
	if agenttest.InFull() {
		list = all(t)
	}
	for list := range slices.Chunk(list, atOnce()) {
		t.Run(list[0].spec, func(t *testing.T) {
			o := labOf(t, list, "")
			o.Hosts = 4
			for i, arm := range testenv.Lab(t, o).Arms {
				list[i].run(t, arm.Name, func(t *testing.T) { everyPair(t, arm) })
			}
		})
	}
}

// everyPair lets the k-th pods of all machines send each other a datagram, for
// every k.
func everyPair(t *testing.T, arm lab.Arm) {
	t.Helper()
	for k := range arm.Ends[0] {
		var pods []host.Endpoint
		for _, ends := range arm.Ends {
			pods = append(pods, ends[k])
		}
		m := newMesh(t, pods)
		missing := m.talk()
		m.close()
		if len(missing) > 0 {
			t.Errorf("%s, pod %d: %d of %d datagrams never came, such as %s", arm.Name, k+1, len(missing), len(pods)*(len(pods)-1), missing[0])
		}
	}
}

// mesh is a socket in each of several pods.
type mesh struct {
	conns []*net.UDPConn
	done  sync.WaitGroup
	mu    sync.Mutex
	came  map[[2]int]bool // from, to
}

func newMesh(t *testing.T, pods []host.Endpoint) *mesh {
	t.Helper()
	m := &mesh{came: map[[2]int]bool{}}
	for _, pod := range pods {
		m.conns = append(m.conns, traffic.ListenUDP(t, pod))
	}
	for to, conn := range m.conns {
		m.done.Go(func() { m.listen(conn, to) })
	}
	return m
}

// letter is what one pod sends to another: who they are, and bytes that only
// this letter has.
func letter(from, to int) []byte {
	text := binary.BigEndian.AppendUint16(nil, uint16(from))
	text = binary.BigEndian.AppendUint16(text, uint16(to))
	source := rand.NewPCG(uint64(from), uint64(to))
	for range 25 {
		text = binary.BigEndian.AppendUint64(text, source.Uint64())
	}
	return text
}

func (m *mesh) listen(conn *net.UDPConn, to int) {
	buf := make([]byte, 1<<11)
	for {
		n, sender, err := conn.ReadFromUDPAddrPort(buf)
		if err != nil {
			return
		}
		from := int(binary.BigEndian.Uint16(buf))
		right := from < len(m.conns) && bytes.Equal(buf[:n], letter(from, to)) && m.addr(from) == sender
		if right {
			m.mu.Lock()
			m.came[[2]int{from, to}] = true
			m.mu.Unlock()
		}
	}
}

func (m *mesh) addr(i int) netip.AddrPort { return m.conns[i].LocalAddr().(*net.UDPAddr).AddrPort() }

// talk sends every letter, again if it does not come, and tells which never came.
func (m *mesh) talk() (missing []string) {
	for range traffic.Tries {
		for from, conn := range m.conns {
			for to := range m.conns {
				if from != to && !m.has(from, to) {
					_, _ = conn.WriteToUDPAddrPort(letter(from, to), m.addr(to)) // one that is not sent does not come
				}
			}
		}
		for wait := time.Now().Add(time.Second); time.Now().Before(wait); time.Sleep(time.Millisecond) {
			if missing = m.undelivered(); len(missing) == 0 {
				return nil
			}
		}
	}
	return missing
}

func (m *mesh) has(from, to int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.came[[2]int{from, to}]
}

func (m *mesh) undelivered() (list []string) {
	for from := range m.conns {
		for to := range m.conns {
			if from != to && !m.has(from, to) {
				list = append(list, fmt.Sprintf("%s to %s", m.addr(from), m.addr(to)))
			}
		}
	}
	return list
}

func (m *mesh) close() {
	for _, conn := range m.conns {
		conn.Close()
	}
	m.done.Wait()
}
