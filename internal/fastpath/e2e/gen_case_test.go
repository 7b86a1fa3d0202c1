package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// production is one part of a generated case: something that a machine is made to
// have, as a shell makes it.
type production struct {
	name string // of the production and what was chosen in it
	path string // on these paths alone; empty: on all
	// resource is what it takes for itself, such as the qdisc of a device: a case has no
	// two of these.
	resource string
	do, undo string // words in braces stand for what they are on a path, see [placeholders]
	// approximate: what passes depends on time or chance, so shares are compared and not
	// numbers.
	approximate bool
	knocks      bool // the machine's pod also sends to another port
	forgets     bool // the machine forgets its connections
	remarks     bool // its connections get another mark
	firewall    bool // packets pass a namespace between pod and wire
	fills       bool // what is sent to that other port fills a set
}

// flow is what a generated case sends in each round.
type flow struct {
	tos     int
	out, in int // bytes of payload; 0: nothing goes that way
}

// generated is a case: what a machine is made to have, and then something changes.
type generated struct {
	name    string
	seed    uint64
	machine int
	inet6   bool // its packets are of IPv6
	setup   []production
	change  production
	flows   []flow
	tcp     bool // there is a connection, too
}

func (c generated) approximate() bool {
	for _, p := range append(c.setup[:len(c.setup):len(c.setup)], c.change) {
		if p.approximate {
			return true
		}
	}
	return false
}

func (c generated) firewall() bool {
	return slices.ContainsFunc(c.setup, func(p production) bool { return p.firewall })
}

// fills tells whether rules wait for what the pod sends to another port.
func (c generated) fills() bool {
	return slices.ContainsFunc(c.setup, func(p production) bool { return p.fills })
}

// byPriority tells whether there is a queue for packets of the priority that comes of TOS 0x10.
func (c generated) byPriority() bool {
	return slices.ContainsFunc(append(c.setup[:len(c.setup):len(c.setup)], c.change), func(p production) bool { return strings.Contains(p.do, byPriority) })
}

// text is the case as a person can play it.
func (c generated) text() string {
	var b strings.Builder
	if c.inet6 {
		b.WriteString("over IPv6\n")
	}
	for _, p := range c.setup {
		fmt.Fprintf(&b, "setup: %s\n%s\n", p.name, indent(p.do))
	}
	fmt.Fprintf(&b, "change: %s\n%s\n", c.change.name, indent(c.change.do))
	for i, f := range c.flows {
		fmt.Fprintf(&b, "flow %d: TOS %#x, %d bytes out and %d in\n", i, f.tos, f.out, f.in)
	}
	if c.tcp {
		b.WriteString("and a connection that echoes\n")
	}
	return b.String()
}

func indent(script string) string {
	var lines []string
	for line := range strings.Lines(script) {
		lines = append(lines, "    "+strings.TrimSpace(line))
	}
	return strings.Join(lines, "\n")
}

// grammar makes the parts of one case.
type grammar struct {
	*rand.Rand
	parts int // so far: each has names of its own
}

// inet6Share is in one of how many cases packets are of IPv6.
const inet6Share = 3

// generate makes the case of a seed.
func generate(seed uint64) generated {
	g := &grammar{Rand: rand.New(rand.NewPCG(seed, 0))}
	c := generated{name: fmt.Sprintf("seed %d", seed), seed: seed, machine: g.IntN(2), inet6: seed%inet6Share == 0}
	if g.chance(1, 6) {
		c.setup = append(c.setup, g.wiring())
	}
	for range choose(g, 1, 1, 2, 3) {
		c.add(g.part())
	}
	for {
		c.change = g.changes(c)
		if c.free(c.change.resource) {
			break
		}
	}
	c.flows, c.tcp = g.flows(c), g.chance(1, 3)
	return c
}

// add adds a part unless another has what it needs.
func (c *generated) add(p production) {
	if c.free(p.resource) {
		c.setup = append(c.setup, p)
	}
}

func (c *generated) free(resource string) bool {
	for _, p := range c.setup {
		if resource != "" && p.resource == resource {
			return false
		}
	}
	return true
}

// part is anything that a machine can have.
func (g *grammar) part() production {
	return g.pick([]weighted{{10, g.ruleset}, {3, g.set}, {3, g.route}, {2, g.policy}, {1, g.queue}, {1, g.mark}, {3, g.marks}, {1, g.linkRules}, {3, g.neighbour}})
}

// changes is what changes in the middle of a case.
func (g *grammar) changes(c generated) production {
	if c.firewall() && g.chance(1, 2) {
		return g.firewallRule()
	}
	if c.fills() && g.chance(1, 2) {
		return g.knock()
	}
	if len(c.setup) > 0 && g.chance(1, 8) {
		was := choose(g, c.setup...)
		return production{name: "no more " + was.name, path: was.path, do: was.undo}
	}
	return g.pick([]weighted{{6, g.part}, {4, g.deny}, {4, g.knock}, {1, g.forget}, {2, g.remark}, {1, g.noProduction}, {2, g.setting}, {1, g.xdp}, {1, g.ipsec}, {1, g.linkRules}, {1, g.queue}})
}

func (g *grammar) flows(c generated) []flow {
	size := func() int { return 8 + g.IntN(500) }
	flows := []flow{{out: size(), in: size()}}
	tos := choose(g, 0, 0x08, 0x10, 0x28)
	if c.byPriority() && g.chance(1, 2) {
		tos = 0x10
	}
	flows = append(flows, flow{tos: tos, out: size(), in: size()})
	one := flow{out: size()}
	if g.chance(1, 2) {
		one = flow{in: size()}
	}
	return append(flows, one)
}

// weighted is an alternative of the grammar, and how often it is taken.
type weighted struct {
	weight int
	make   func() production
}

func (g *grammar) pick(of []weighted) production {
	total := 0
	for _, w := range of {
		total += w.weight
	}
	n := g.IntN(total)
	for _, w := range of {
		if n -= w.weight; n < 0 {
			return w.make()
		}
	}
	panic("unreachable")
}

// chance is true n times of m.
func (g *grammar) chance(n, m int) bool { return g.IntN(m) < n }

// next numbers the parts of a case from 1.
func (g *grammar) next() int {
	g.parts++
	return g.parts
}

func choose[T any](g *grammar, of ...T) T { return of[g.IntN(len(of))] }
