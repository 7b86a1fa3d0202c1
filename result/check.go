package result

import (
	"fmt"
	"math"
)

// Bounds that a sane record stays inside. They keep a damaged or hostile file
// from making a reader allocate without limit; a real run is far below each.
const (
	maxLine   = 8 << 20 // bytes of one line
	maxArms   = 256
	maxCells  = 4096
	maxSeries = 100_000
	maxRounds = 1_000_000
	maxFacts  = 256
	maxKeys   = 100_000 // in one map
	maxRTT    = 1 << 20 // bytes of one encoded histogram
)

// checker holds what has been seen of a stream, so that the reader and the
// writer enforce one grammar: what the writer lets through can be read.
type checker struct {
	header bool
	plan   *Plan
	arms   map[string]bool
	cells  map[string]bool
	rounds map[seriesKey]*roundSet
	facts  int
	slices int
	ended  bool
}

type seriesKey struct {
	cell, arm string
	series    int
}

// line checks l as the next line of the stream and takes it in.
func (c *checker) line(l *Line) error {
	if n := fields(l); n != 1 {
		return fmt.Errorf("a line must have exactly one kind, this one has %d", n)
	}
	if c.ended {
		return fmt.Errorf("a line follows the end line")
	}
	if !c.header {
		if l.Header == nil {
			return fmt.Errorf("the first line must be the header")
		}
		c.header = true
		return checkHeader(l.Header)
	}
	switch {
	case l.Header != nil:
		return fmt.Errorf("a second header")
	case l.Plan != nil:
		return c.takePlan(l.Plan)
	case l.Facts != nil:
		return c.takeFacts(l.Facts)
	case l.Slice != nil:
		return c.takeSlice(l.Slice)
	case l.Meter != nil:
		return c.takeMeter(l.Meter)
	case l.End != nil:
		return c.takeEnd(l.End)
	}
	if len(l.Warning.Code) > 1024 || l.Warning.Code == "" {
		return fmt.Errorf("a warning without a code")
	}
	return nil
}

func fields(l *Line) int {
	n := 0
	for _, set := range []bool{l.Header != nil, l.Plan != nil, l.Facts != nil,
		l.Slice != nil, l.Meter != nil, l.Warning != nil, l.End != nil} {
		if set {
			n++
		}
	}
	return n
}

func checkHeader(h *Header) error {
	if h.Format != Format {
		return fmt.Errorf("format %.40q: %w", h.Format, ErrNotRecord)
	}
	if h.Version > Version {
		return fmt.Errorf("version %d, this program reads up to %d: %w", h.Version, Version, ErrNewer)
	}
	if h.Version < 1 {
		return fmt.Errorf("version %d does not exist", h.Version)
	}
	return nil
}

func (c *checker) takePlan(p *Plan) error {
	if c.plan != nil {
		return fmt.Errorf("a second plan")
	}
	if err := p.check(); err != nil {
		return err
	}
	c.plan = p
	c.arms, c.cells, c.rounds = map[string]bool{}, map[string]bool{}, map[seriesKey]*roundSet{}
	for _, a := range p.Arms {
		c.arms[a.Name] = true
	}
	for _, cell := range p.Cells {
		c.cells[cell.Name] = true
	}
	return nil
}

// check refuses a plan that a report could not be made from.
func (p *Plan) check() error {
	switch {
	case len(p.Arms) == 0 || len(p.Arms) > maxArms:
		return fmt.Errorf("plan with %d arms, must be 1 to %d", len(p.Arms), maxArms)
	case len(p.Cells) == 0 || len(p.Cells) > maxCells:
		return fmt.Errorf("plan with %d cells, must be 1 to %d", len(p.Cells), maxCells)
	case p.Series < 1 || p.Series > maxSeries:
		return fmt.Errorf("plan with %d series, must be 1 to %d", p.Series, maxSeries)
	case p.Rounds < 1 || p.Rounds > maxRounds:
		return fmt.Errorf("plan with %d rounds, must be 1 to %d", p.Rounds, maxRounds)
	case !inOpenRange(p.Margin, 0, 1):
		return fmt.Errorf("plan with margin %v, must be between 0 and 1", p.Margin)
	case !inOpenRange(p.Confidence, 0.5, 0.999999):
		return fmt.Errorf("plan with confidence %v, must be between 0.5 and 0.999999", p.Confidence)
	case p.Precision != 0 && !inOpenRange(p.Precision, 0, 10):
		return fmt.Errorf("plan with precision %v, must be between 0 and 10", p.Precision)
	case len(p.Cores) > maxArms:
		return fmt.Errorf("plan with the cores of %d machines, at most %d", len(p.Cores), maxArms)
	case p.Budget < 0 || p.Services < 0 || len(p.Looks) > 1000:
		return fmt.Errorf("plan with a negative budget, negative services, or too many looks")
	}
	for i, n := range p.Looks {
		if n < 1 || n > maxSeries || i > 0 && n <= p.Looks[i-1] {
			return fmt.Errorf("plan with looks %v, must be ascending and positive", p.Looks)
		}
	}
	if err := p.checkArms(); err != nil {
		return err
	}
	return p.checkCells()
}

func (p *Plan) checkArms() error {
	names, roles := map[string]bool{}, map[string]int{}
	for _, a := range p.Arms {
		if a.Name == "" || names[a.Name] {
			return fmt.Errorf("arm name %q is empty or there twice", a.Name)
		}
		names[a.Name] = true
		if a.Role != "" && a.Role != RoleBaseline && a.Role != RoleCopy {
			return fmt.Errorf("arm %q has unknown role %q", a.Name, a.Role)
		}
		roles[a.Role]++
		if !inRange(int64(a.MTU), 0, 1<<30) || !inRange(int64(a.Overhead), -1<<20, 1<<20) {
			return fmt.Errorf("arm %q has MTU %d and overhead %d", a.Name, a.MTU, a.Overhead)
		}
		if !inRange(int64(a.Pairs), 0, 1<<20) || len(a.Versions) > maxKeys {
			return fmt.Errorf("arm %q has %d pairs of ends and %d versions", a.Name, a.Pairs, len(a.Versions))
		}
	}
	if roles[RoleBaseline] != 1 || roles[RoleCopy] > 1 {
		return fmt.Errorf("plan with %d baselines and %d copies, must be one and at most one", roles[RoleBaseline], roles[RoleCopy])
	}
	return nil
}

func (p *Plan) checkCells() error {
	names := map[string]bool{}
	for _, c := range p.Cells {
		if c.Name == "" || names[c.Name] {
			return fmt.Errorf("cell name %q is empty or there twice", c.Name)
		}
		names[c.Name] = true
		switch c.Metric {
		case OneWay, RoundTrip, Transactions, Connections, Bandwidth, Messages, CPUPerPacket, CPUPerMessage, CPUPerGB:
		default:
			return fmt.Errorf("cell %q has unknown metric %q", c.Name, c.Metric)
		}
		if c.Transport != "tcp" && c.Transport != "udp" && c.Transport != "icmp" {
			return fmt.Errorf("cell %q has unknown transport %q", c.Name, c.Transport)
		}
		if !inRange(int64(c.Size), 0, 1<<40) || !inRange(int64(c.Flows), 0, 1<<20) ||
			!inRange(int64(c.Batch), 0, 1<<20) || c.Rate != 0 && !inOpenRange(c.Rate, 0, 1e15) || c.Slice < 0 || c.Head < 0 {
			return fmt.Errorf("cell %q has a size, flows, batch, rate, slice or head out of range", c.Name)
		}
		if !inRange(int64(c.Response), 0, 1<<40) || !inRange(int64(c.Threads), 0, 1<<20) {
			return fmt.Errorf("cell %q has a response or threads out of range", c.Name)
		}
		if b := c.Background; b != nil && (!inRange(int64(b.Size), 0, 1<<40) || !inRange(int64(b.Flows), 0, 1<<20) ||
			b.Rate != 0 && !inOpenRange(b.Rate, 0, 1e15) || b.Share != 0 && !inOpenRange(b.Share, 0, 10)) {
			return fmt.Errorf("cell %q has a load beside it whose size, flows, rate or share is out of range", c.Name)
		}
	}
	for _, c := range p.Cells {
		if b := c.Background; b != nil && b.Maximum != "" && !names[b.Maximum] {
			return fmt.Errorf("cell %q has its maximum in cell %q, which is not in the plan", c.Name, b.Maximum)
		}
	}
	return nil
}

func (c *checker) takeFacts(f *Facts) error {
	if c.facts++; c.facts > maxFacts {
		return fmt.Errorf("more than %d facts lines", maxFacts)
	}
	if f.CPUs < 0 || f.Memory < 0 || f.NetfilterRules < 0 || f.WrappedRules < 0 || f.WrappedRules > f.NetfilterRules || len(f.Devices) > maxKeys || len(f.Sysctls) > maxKeys {
		return fmt.Errorf("facts of machine %q out of range", f.Machine)
	}
	return nil
}

func (c *checker) checkRefs(cell, arm string, series int) error {
	switch {
	case c.plan == nil:
		return fmt.Errorf("it comes before the plan")
	case !c.cells[cell]:
		return fmt.Errorf("cell %q is not in the plan", cell)
	case !c.arms[arm]:
		return fmt.Errorf("arm %q is not in the plan", arm)
	case series < 0 || series >= maxSeries:
		return fmt.Errorf("series %d is out of range", series)
	}
	return nil
}

func (c *checker) takeSlice(s *Slice) error {
	key := seriesKey{s.Cell, s.Arm, s.Series}
	rounds := c.rounds[key]
	first := rounds == nil
	if first {
		if err := c.checkRefs(s.Cell, s.Arm, s.Series); err != nil {
			return fmt.Errorf("slice: %w", err)
		}
		rounds = &roundSet{}
	}
	if s.Round < 0 || s.Round >= maxRounds || s.Elapsed < 0 {
		return fmt.Errorf("slice: round %d or elapsed %d is out of range", s.Round, s.Elapsed)
	}
	n := 0
	if s.Failed != "" {
		n++
	}
	if l := s.Latency; l != nil {
		n++
		if anyNegative(l.Requests, l.Replies, l.Lost, l.Late, l.RTTSum, l.RTTMedian, l.HeadReplies, l.Timeout, l.Missed) || anyNegative(l.PerFlow...) || len(l.PerFlow) > maxKeys || len(l.RTT) > maxRTT || len(l.Lateness) > maxRTT {
			return fmt.Errorf("slice: negative count or oversized histogram in a latency slice")
		}
	}
	if t := s.Stream; t != nil {
		n++
		if t.negative() {
			return fmt.Errorf("slice: negative count in a stream slice")
		}
	}
	if t := s.Background; t != nil && t.negative() {
		return fmt.Errorf("slice: negative count in a stream beside a slice")
	}
	if n != 1 {
		return fmt.Errorf("slice: must have exactly one of latency, stream, failed; this one has %d", n)
	}
	if !rounds.add(s.Round) {
		return fmt.Errorf("slice: %s of %s, series %d round %d, is there twice", s.Cell, s.Arm, s.Series, s.Round)
	}
	if first {
		c.rounds[key] = rounds
	}
	c.slices++
	return nil
}

func (c *checker) takeMeter(m *Meter) error {
	if err := c.checkRefs(m.Cell, m.Arm, m.Series); err != nil {
		return fmt.Errorf("meter: %w", err)
	}
	if m.Name == "" || m.WallNs < 0 || len(m.Values) > maxKeys {
		return fmt.Errorf("meter: no name, negative time, or too many values")
	}
	return nil
}

func (c *checker) takeEnd(e *End) error {
	if e.Reason == "" || e.Series < 0 || e.Took < 0 {
		return fmt.Errorf("end: no reason, or negative numbers")
	}
	if e.Slices != c.slices {
		return fmt.Errorf("end: it counts %d slices, the record has %d", e.Slices, c.slices)
	}
	c.ended = true
	return nil
}

// negative tells whether a count is, or there are too many flows.
func (t *Stream) negative() bool {
	return len(t.PerFlow) > maxKeys || anyNegative(t.PerFlow...) || anyNegative(t.SentMessages, t.SentBytes, t.SendNs, t.RecvMessages, t.RecvBytes,
		t.RateMessages, t.RateBytes, t.RateNs, t.Packets, t.Retransmits, t.AskedMessages)
}

func anyNegative(v ...int64) bool {
	for _, x := range v {
		if x < 0 {
			return true
		}
	}
	return false
}

func inRange(v, lo, hi int64) bool { return v >= lo && v <= hi }

func inOpenRange(v, lo, hi float64) bool {
	return !math.IsNaN(v) && !math.IsInf(v, 0) && v > lo && v < hi
}
