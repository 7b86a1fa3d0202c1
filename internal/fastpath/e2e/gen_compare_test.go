package e2e

import (
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/testenv"
)

// measured is what has become of a path's packets.
type measured struct {
	flows      []sockets // counts of them
	conn       connection
	carried    uint64         // by the case's machine
	firewalled int            // by the firewall namespace
	hits       map[string]int // of counters of the path's rules, by the number of the part
}

// measure reads all counts.
func (s *genSite) measure(t *testing.T, c generated) (all []measured) {
	t.Helper()
	hits, seen := counters(t, s.lab.Machines[c.machine].Namespace), map[string]int{}
	if c.firewall() {
		seen = counters(t, s.firewalls[c.machine])
	}
	for _, p := range s.paths {
		m := measured{flows: slices.Clone(p.flows), conn: p.conn, hits: map[string]int{}, firewalled: seen[fmt.Sprintf("seen seen%d", p.number)]}
		if p.isFast {
			m.carried = p.carried(t, c.machine)
		}
		for name, packets := range hits {
			if part, ok := strings.CutSuffix(name, fmt.Sprintf("x%d hits", p.number)); ok {
				m.hits[part] = packets
			}
		}
		all = append(all, m)
	}
	return all
}

// counters reads the packets of named counters, by the names of table and counter.
func counters(t *testing.T, namespace string) map[string]int {
	t.Helper()
	var text []byte
	testenv.Must(t, host.Do(namespace, func() (err error) {
		text, err = exec.Command("nft", "list", "counters").Output()
		return err
	}))
	packets, table, name := map[string]int{}, "", ""
	for line := range strings.Lines(string(text)) {
		switch f := strings.Fields(line); {
		case len(f) >= 3 && f[0] == "table":
			table = f[2]
		case len(f) >= 2 && f[0] == "counter":
			name = f[1]
		case len(f) >= 2 && f[0] == "packets":
			n, err := strconv.Atoi(f[1])
			testenv.Must(t, err)
			packets[table+" "+name] = n
		}
	}
	return packets
}

// since is what came about after another measurement.
func (m measured) since(before measured) measured {
	d := measured{carried: m.carried - before.carried, firewalled: m.firewalled - before.firewalled, hits: map[string]int{}}
	for i, f := range m.flows {
		b := before.flows[i]
		f.sentOut, f.sentIn, f.arrivedOut, f.arrivedIn = f.sentOut-b.sentOut, f.sentIn-b.sentIn, f.arrivedOut-b.arrivedOut, f.arrivedIn-b.arrivedIn
		d.flows = append(d.flows, f)
	}
	d.conn = connection{sent: m.conn.sent - before.conn.sent, arrivedOut: m.conn.arrivedOut - before.conn.arrivedOut, arrivedIn: m.conn.arrivedIn - before.conn.arrivedIn}
	for part, packets := range m.hits {
		d.hits[part] = packets - before.hits[part]
	}
	return d
}

// differs says what the fast path did otherwise than its twin. Rules do not count what
// is carried past them: their counters say something only where nothing is.
func (m measured) differs(fast measured, c generated) (differences []string) {
	compare := func(what string, sent, plain, fast, tolerance int) {
		if c.approximate() {
			tolerance = 2 * sent / 5
		}
		if plain-fast > tolerance || fast-plain > tolerance {
			differences = append(differences, fmt.Sprintf("%s: of %d, %d without the fast path and %d with it", what, sent, plain, fast))
		}
	}
	sent, acks := 0, 0
	for i, f := range m.flows {
		g := fast.flows[i]
		compare(fmt.Sprintf("flow %d out", i), f.sentOut, f.arrivedOut, g.arrivedOut, 0)
		compare(fmt.Sprintf("flow %d in", i), f.sentIn, f.arrivedIn, g.arrivedIn, 0)
		sent += f.sentOut + f.sentIn
	}
	if c.tcp { // how many segments and retransmissions there are is chance
		acks = sent / 3
		if plain, fast := m.conn.progress(), fast.conn.progress(); !c.approximate() && plain != fast && plain != "some" && fast != "some" {
			differences = append(differences, fmt.Sprintf("connection: %s of it without the fast path and %s with it", plain, fast))
		}
	}
	if c.firewall() {
		compare("the firewall namespace saw", sent, m.firewalled, fast.firewalled, acks)
	}
	if fast.carried == 0 {
		for part, packets := range m.hits {
			compare("rules of part "+part+" counted", sent, packets, fast.hits[part], acks)
		}
	}
	return differences
}

// carried is what the fast path of a machine has, out and in.
func (p *genPath) carried(t *testing.T, i int) uint64 {
	t.Helper()
	stats, err := fastpath.ReadStats(p.Pins[i])
	testenv.Must(t, err)
	return stats[bpf.CarriedOut].Packets + stats[bpf.CarriedIn].Packets
}

func genState(t *testing.T, p *genPath, i int) *fastpath.State {
	t.Helper()
	state, err := fastpath.ReadState(fastpath.StateFile(p.Pins[i]))
	testenv.Must(t, err)
	return state
}
