package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
)

// casesEnv is how many cases to generate and play, from a seed that is new each time; or
// SEED:N, as a failure names it.
const casesEnv = "VENTURI_CASES"

// casesWithEnv is a regular expression: of the cases that are generated, only those are played whose text it
// matches.
const casesWithEnv = "VENTURI_CASES_WITH"

// Without it they are the same few each time.
const (
	fewCases   = 30
	guestCases = 6
	// carriedShare is in one of how many cases packets have to be carried: a generator of
	// which all cases are refused tests nothing.
	carriedShare = 4
)

// Whatever rulesets, sets, routes, policy rules, queues and wirings a machine has, and
// whatever of it changes, the same traffic has the same fate with the fast path and
// without.
func TestFastPathGenerated(t *testing.T) {
	requireFastPath(t)
	requireTools(t)
	few := fewCases
	if agenttest.InGuest() {
		few = guestCases // its CPU takes its time
	}
	seed, many := testenv.Generated(t, casesEnv, few)
	s := newGenSite(t)
	for i, c := range knownCases {
		c.machine = i % len(s.lab.Machines)
		s.playAs(t, c)
		if c.inet6 = true; many > fewCases {
			c.name += ", over IPv6"
			s.playAs(t, c)
		}
	}
	if text := os.Getenv(casesWithEnv); text != "" {
		for _, c := range casesWith(t, text, seed, many) {
			s.playAs(t, c)
		}
		return
	}
	counts := map[bool]map[string]int{false: {}, true: {}}
	for i := range uint64(many) {
		c := generate(seed + i)
		counts[c.inet6][s.playAs(t, c).summary()]++
	}
	for inet6, count := range counts {
		requireShares(t, inet6, count)
	}
}

// casesWith are the first cases from a seed on whose text an expression matches.
func casesWith(t *testing.T, text string, seed uint64, many int) (cases []generated) {
	t.Helper()
	with, err := regexp.Compile(text)
	testenv.Must(t, err)
	const most = 1 << 20
	for i := range uint64(most) {
		if c := generate(seed + i); with.MatchString(c.text()) {
			cases = append(cases, c)
		}
		if len(cases) == many {
			t.Logf("cases with %q: %d of %d that are generated", text, many, i+1)
			return cases
		}
	}
	t.Fatalf("of %d generated cases, only %d are with %q", most, len(cases), text)
	return nil
}

// requireShares makes sure that enough of the cases of a version of IP test something.
func requireShares(t *testing.T, inet6 bool, count map[string]int) {
	t.Logf("cases, over IPv6: %v: %v", inet6, count)
	done, least := count[isCarried]+count[isSlow], 0
	switch {
	case done >= fewCases/2:
		least = done / carriedShare
	case done >= fewCases/2/inet6Share: // a share of so few is chance
		least = 1
	}
	if count[isCarried] < least {
		t.Errorf("packets were carried in %d of %d cases, want %d at least, over IPv6: %v", count[isCarried], done, least, inet6)
	}
	if tried := done + count[isImpossible]; tried >= fewCases/inet6Share && count[isImpossible]*4 > tried {
		t.Errorf("%d of %d cases are impossible here, over IPv6: %v", count[isImpossible], tried, inet6)
	}
}

// playAs plays a case as a test of its own.
func (s *genSite) playAs(t *testing.T, c generated) (o played) {
	o.skipped = true
	t.Run(c.name, func(t *testing.T) {
		if s.dirty {
			t.Skip("a case before could not be taken back")
		}
		o = s.play(t, c)
		s.requireDaemons(t)
	})
	return o
}

// requireDaemons makes sure that no case has ended a daemon: all later ones would be slow.
func (s *genSite) requireDaemons(t *testing.T) {
	for _, p := range slices.Concat(s.four, s.six) {
		for _, pins := range p.Pins {
			if pins == "" {
				continue
			}
			running, err := kernel.Locked(pins)
			testenv.Must(t, err)
			if !running {
				log, err := os.ReadFile(filepath.Join(filepath.Dir(pins), "fast.log"))
				t.Errorf("the daemon of %s has ended: %s (%v)", pins, log, err)
			}
		}
	}
}

// played is what became of a case.
type played struct {
	carried    bool
	impossible bool // this kernel, nft or ip does not take it
	skipped    bool
}

// What becomes of cases.
const (
	isCarried    = "carried"
	isSlow       = "slow"
	isImpossible = "impossible"
	isSkipped    = "skipped"
)

func (p played) summary() string {
	switch {
	case p.skipped:
		return isSkipped
	case p.impossible:
		return isImpossible
	case p.carried:
		return isCarried
	}
	return isSlow
}

// Rounds of datagrams.
const (
	leastWarm, mostWarm = 16, 60
	measuredRounds      = 60
	windows             = 3 // a difference that is not there in the last was one of time
)

// play plays a case with and without the fast path.
func (s *genSite) play(t *testing.T, c generated) (o played) {
	t.Helper()
	s.prepare(t, c)
	defer func() {
		s.undo(t, c)
		for _, p := range s.paths {
			p.closeFlows()
		}
		s.tcp = false
	}()
	if err := s.do(c, c.setup...); err != nil {
		t.Logf("%s is impossible: %v", c.name, err)
		return played{impossible: true}
	}
	time.Sleep(genSettle)
	if s.tcp = c.tcp; s.tcp {
		s.connectTCP(t, c)
	}
	s.warm(t, c)
	carried, differed := s.replaySame(t, c, "before the change")
	if !carried && testing.Verbose() {
		t.Logf("nothing is carried:\n%s%s", c.text(), s.states(t, c))
	}
	if o.carried = carried; differed {
		return o
	}
	if err := s.do(c, c.change); err != nil {
		t.Logf("%s is impossible: %v", c.name, err)
		return played{impossible: true}
	}
	if c.change.forgets {
		forgetConnections(t, s.lab.Machines[c.machine])
	}
	if c.change.remarks {
		markConnections(t, s.lab.Machines[c.machine], generatedMark)
	}
	if c.change.knocks {
		s.knocks()
	}
	time.Sleep(genSettle)
	carried, _ = s.replaySame(t, c, "after the change")
	o.carried = o.carried || carried
	return o
}

// warm sends until the fast paths of the case's machine carry, or it has become unlikely
// that they will.
func (s *genSite) warm(t *testing.T, c generated) {
	before := s.carried(t, c)
	for n := range mostWarm {
		s.round()
		if n >= leastWarm && n%4 == 0 && increased(before, s.carried(t, c)) {
			break
		}
	}
	s.drain()
}

// carried is what each fast path of the case's machine has carried.
func (s *genSite) carried(t *testing.T, c generated) (counts []uint64) {
	t.Helper()
	for _, p := range s.paths {
		if p.isFast {
			counts = append(counts, p.carried(t, c.machine))
		}
	}
	return counts
}

// replaySame sends some rounds and compares paths with their twins. A difference has to be
// there again: what a slow machine does to one window it does not do to all.
func (s *genSite) replaySame(t *testing.T, c generated, when string) (carried, differed bool) {
	t.Helper()
	var differences []string
	for range windows {
		before := s.measure(t, c)
		for range measuredRounds {
			s.round()
		}
		s.drain()
		after := s.measure(t, c)
		differences = nil
		for i := 0; i < len(s.paths); i += 2 {
			plain, fast := after[i].since(before[i]), after[i+1].since(before[i+1])
			carried = carried || fast.carried > measuredRounds/2
			for _, d := range plain.differs(fast, c) {
				differences = append(differences, s.paths[i+1].Name+": "+d)
			}
		}
		if len(differences) == 0 {
			return carried, false
		}
		time.Sleep(genSettle)
	}
	t.Errorf("%s%s, on %s:\n%s\n%s%s", c.command(), when, s.lab.Machines[c.machine].Name, strings.Join(differences, "\n"), c.text(), s.states(t, c))
	return carried, true
}

// command says how to play a case again.
func (c generated) command() string {
	if c.seed == 0 {
		return ""
	}
	return fmt.Sprintf("%s=%d:1 plays it again; ", casesEnv, c.seed)
}

// states is what the daemons of the case's machine say.
func (s *genSite) states(t *testing.T, c generated) (text string) {
	for _, p := range s.paths {
		if p.isFast {
			text += fmt.Sprintf("%s: %+v, counted since the daemon began:\n", p.Name, genState(t, p, c.machine))
			stats, err := fastpath.ReadStats(p.Pins[c.machine])
			testenv.Must(t, err)
			for _, stat := range stats {
				if stat.Packets > 0 {
					text += fmt.Sprintf("  %s: %d\n", stat.Count, stat.Packets)
				}
			}
		}
	}
	return text
}
