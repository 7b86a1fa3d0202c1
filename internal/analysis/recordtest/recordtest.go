// Package recordtest makes records of known truth: what the tests of the
// analysis and of the reports are held to. The same truth and seed give the
// same record on every machine.
package recordtest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/venturi-net/venturi/result"
)

// Truth is what a record is made from.
type Truth struct {
	Seed           uint64
	Series, Rounds int
	Arms           []Arm
	Cells          []result.Cell
	Noise          Noise
	Margin         float64 // 0: 0.03
	Precision      float64
	Looks          []int
	Histograms     bool // costs time: leave it out where only ratios matter
	Meters         bool
}

// Arm is a path and its true effect.
type Arm struct {
	result.Arm
	Factor    float64 // time that one operation takes, against the baseline; 0: 1
	CPUFactor float64 // 0: Factor
	Loss      float64 // share of requests or datagrams
	Late      float64 // us that requests on a schedule are late; 0: 1
	Fails     string  // every slice fails with this
}

// Noise is in log units: 0.1 is about 10 %.
type Noise struct {
	Slow    float64 // drift of the machine, shared by all arms of a round
	Phi     float64 // autocorrelation of the drift from round to round
	Socket  float64 // offset of an arm in a series, fresh in each series
	Slice   float64 // each slice on its own
	Heavy   bool    // slice noise from Student's t with 3 degrees of freedom
	Spoiled float64 // share of slices that are 1.5 to 3 times slower
}

// Quiet is a machine at rest, Noisy one with other work.
var (
	Quiet = Noise{Slow: 0.02, Phi: 0.7, Socket: 0.002, Slice: 0.006}
	Noisy = Noise{Slow: 0.25, Phi: 0.7, Socket: 0.01, Slice: 0.04, Spoiled: 0.05}
)

// The cells of a default run.
var (
	TCPLat     = cell("tcp_lat/1", "tcp_lat", "tcp", 1, result.OneWay)
	UDPLat     = cell("udp_lat/1", "udp_lat", "udp", 1, result.OneWay)
	TCPBw      = cell("tcp_bw/65536", "tcp_bw", "tcp", 65536, result.Bandwidth)
	TCPMsg     = cell("tcp_bw/1", "tcp_bw", "tcp", 1, result.Messages)
	UDPMsg     = cell("udp_bw/1", "udp_bw", "udp", 1, result.Messages)
	UDPBw      = cell("udp_bw/8192", "udp_bw", "udp", 8192, result.Bandwidth)
	TCPRR      = cell("tcp_rr/1", "tcp_rr", "tcp", 1, result.Transactions)
	Probe      = scheduled("probe/64", "probe", "udp", 64)
	Ping       = scheduled("ping/56", "ping", "icmp", 56)
	UDPAt      = paced("udp_bw/1/rate=100k", "udp_bw", "udp", 1, 100_000, result.CPUPerPacket)
	TCPAt      = paced("tcp_bw/65536/rate=2G", "tcp_bw", "tcp", 65536, 2e9, result.CPUPerGB)
	Background = withBackground(Ping, result.BackgroundLoad{Load: "udp_bw", Size: 1, Flows: 1, Rate: 50_000, Cores: "same"})
	TCPCRR     = cell("tcp_crr/1", "tcp_crr", "tcp", 1, result.Connections)
)

func cell(name, load, transport string, size int, m result.Metric) result.Cell {
	slice := 25 * time.Millisecond
	if m == result.Bandwidth || m == result.Messages || m == result.Connections {
		slice *= 2
	}
	return result.Cell{Name: name, Load: load, Transport: transport, Size: size, Flows: 1, Metric: m,
		Slice: slice, Head: 3 * time.Millisecond}
}

// scheduled is a cell of 1000 requests a second.
func scheduled(name, load, transport string, size int) result.Cell {
	c := cell(name, load, transport, size, result.RoundTrip)
	c.Slice, c.Rate = 100*time.Millisecond, 1000
	return c
}

// paced is a cell of a stream with a rate.
func paced(name, load, transport string, size int, rate float64, m result.Metric) result.Cell {
	c := cell(name, load, transport, size, m)
	c.Slice, c.Rate = 50*time.Millisecond, rate
	return c
}

// withBackground is a cell with a stream beside it.
func withBackground(c result.Cell, b result.BackgroundLoad) result.Cell {
	c.Name, c.Background = c.Name+"/beside", &b
	return c
}

// Curve are the cells of a curve of latency against load: the stream's maximum, and Ping
// beside each share of it. A share of 0 is Ping alone.
func Curve(shares ...float64) []result.Cell {
	cells := []result.Cell{UDPMsg}
	for _, share := range shares {
		c := Ping
		c.Curve = "ping/56 beside udp_bw/1"
		if share > 0 {
			c.Name = fmt.Sprintf("ping/56/beside=udp_bw/1@%g%%/cores=same", 100*share)
			c.Background = &result.BackgroundLoad{Load: "udp_bw", Size: 1, Flows: 1, Share: share, Maximum: UDPMsg.Name, Cores: "same"}
		}
		cells = append(cells, c)
	}
	return cells
}

// Host, Copy and Path are arms of the usual kind.
func Host() Arm { return Arm{Arm: arm("host", "host", result.RoleBaseline, 1500, 0)} }

// Copy is the baseline once more.
func Copy() Arm { return Arm{Arm: arm("host-copy", "host", result.RoleCopy, 1500, 0)} }

// Path is a path that takes factor times as long as the host network.
func Path(name string, factor float64) Arm {
	if name == "vxlan" {
		return Arm{Arm: arm(name, name, "", 1450, 50), Factor: factor}
	}
	return Arm{Arm: arm(name, name, "", 1500, 0), Factor: factor}
}

func arm(name, path, role string, mtu, overhead int) result.Arm {
	return result.Arm{Name: name, Path: path, Role: role, MTU: mtu, Overhead: overhead, From: "10.0.0.1", To: "10.0.0.2"}
}

// Make makes a complete record.
func Make(t Truth) *result.Record {
	rec := &result.Record{Header: result.Header{Format: result.Format, Version: result.Version, Venturi: "v0.0.0-test",
		Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Command: []string{"venturi", "compare"}}}
	rec.Plan = result.Plan{Cells: t.Cells, Series: t.Series, Rounds: t.Rounds, Seed: t.Seed, Margin: t.Margin,
		Precision: t.Precision, Looks: t.Looks, Confidence: 0.95, Budget: 80 * time.Second, SharedCores: true,
		Wire: "tso=on,tunnel-tso=on,gro=off,csum=on,mtu=1500", ClientCPU: 0, ServerCPU: 1}
	if t.Margin == 0 {
		rec.Plan.Margin = 0.03
	}
	for _, a := range t.Arms {
		rec.Plan.Arms = append(rec.Plan.Arms, a.Arm)
	}
	for _, name := range []string{"a", "b"} {
		rec.Facts = append(rec.Facts, result.Facts{Machine: name, Kernel: "6.1.0-18-amd64", Arch: "amd64",
			OS: "Debian GNU/Linux 12 (bookworm)", CPUModel: "Example CPU @ 2.50GHz", CPUs: 2, Hypervisor: "kvm",
			ClockSource: "tsc", Congestion: "cubic", Memory: 8 << 30, BootID: "b007"})
	}
	m := generator{t: t, rng: rand.New(rand.NewPCG(t.Seed, 7)), rec: rec}
	for series := range t.Series {
		for _, c := range t.Cells {
			m.series(series, c)
		}
	}
	rec.End = &result.End{Reason: result.Complete, Series: t.Series, Slices: len(rec.Slices), Took: 78 * time.Second}
	return rec
}

type generator struct {
	t     Truth
	rng   *rand.Rand
	rec   *result.Record
	drift float64
	clock int64
}

func (m *generator) series(series int, c result.Cell) {
	n := m.t.Noise
	socket := make([]float64, len(m.t.Arms))
	for i := range socket {
		socket[i] = n.Socket * m.rng.NormFloat64()
	}
	meters := make([]work, len(m.t.Arms))
	for round := range m.t.Rounds {
		m.drift = n.Phi*m.drift + n.Slow*math.Sqrt(1-n.Phi*n.Phi)*m.rng.NormFloat64()
		for _, i := range m.rng.Perm(len(m.t.Arms)) {
			a := m.t.Arms[i]
			factor := orOne(a.Factor) * math.Exp(m.drift+socket[i]+m.slice())
			s := result.Slice{Cell: c.Name, Arm: a.Name, Series: series, Round: round, Start: m.clock, Elapsed: int64(c.Slice)}
			m.clock += int64(c.Slice + c.Head)
			if a.Fails != "" {
				s.Failed = a.Fails
			} else {
				meters[i].add(m.fill(&s, c, a, factor))
			}
			m.rec.Slices = append(m.rec.Slices, s)
		}
	}
	if m.t.Meters {
		m.meters(series, c, meters)
	}
}

func (m *generator) slice() float64 {
	n := m.t.Noise
	v := m.rng.NormFloat64()
	if n.Heavy {
		chi := 0.0
		for range 3 {
			z := m.rng.NormFloat64()
			chi += z * z
		}
		v /= math.Sqrt(chi / 3)
	}
	v *= n.Slice
	if n.Spoiled > 0 && m.rng.Float64() < n.Spoiled {
		v += math.Log(1.5 + 1.5*m.rng.Float64())
	}
	return v
}

func orOne(f float64) float64 {
	if f == 0 {
		return 1
	}
	return f
}

// work is what a slice did, for the meters.
type work struct{ units, wall float64 }

func (w *work) add(o work) { w.units += o.units; w.wall += o.wall }

// fill gives the slice its figures: 16 us RTT, and as much for a connection, 40 Gb/s or 600 k messages/s at
// factor 1.
func (m *generator) fill(s *result.Slice, c result.Cell, a Arm, factor float64) work {
	wall := float64(c.Slice + c.Head)
	whole := wall / float64(c.Slice)
	if c.Metric == result.OneWay || c.Metric == result.Transactions || c.Metric == result.Connections || c.Metric == result.RoundTrip {
		rtt := 16_000 * factor
		if b := c.Background; b != nil {
			rtt /= 1 - min(b.Share, 0.99) // as requests wait in a queue
		}
		n := int64(float64(s.Elapsed) / rtt)
		if c.Rate > 0 {
			n = int64(float64(s.Elapsed) * c.Rate / 1e9)
		}
		lost := int64(0)
		if a.Loss > 0 && m.rng.Float64() < a.Loss*float64(n) {
			lost = 1
		}
		s.Latency = &result.Latency{Requests: n + lost, Replies: n, Lost: lost, RTTSum: int64(rtt * 1.02 * float64(n)), RTTMedian: int64(rtt),
			HeadReplies: int64(float64(c.Head) / rtt), Timeout: int64(20 * time.Millisecond)}
		if m.t.Histograms {
			s.Latency.RTT = m.histogram(rtt, n)
			if c.Rate > 0 {
				s.Latency.Lateness = m.histogram(orOne(a.Late)*1000, n)
			}
		}
		if b := c.Background; b != nil {
			n := int64(backgroundRate(b) * wall / factor / 1e9)
			if b.Rate > 0 {
				n = int64(b.Rate * wall / 1e9)
			}
			got := int64(float64(n) * (1 - a.Loss))
			s.Background = &result.Stream{AskedMessages: n, SentMessages: n, SentBytes: n * int64(b.Size), SendNs: int64(wall),
				RecvMessages: got, RecvBytes: got * int64(b.Size), RateMessages: got, RateBytes: got * int64(b.Size), RateNs: int64(wall)}
		}
		units := float64(n + s.Latency.HeadReplies)
		if c.Metric != result.Connections {
			units *= 2 // there and back
		}
		return work{units, wall}
	}
	perNs := 6e-4 / factor // messages
	if c.Size >= 1024 {
		perNs = 5 / factor / float64(c.Size)
	}
	if c.Rate > 0 {
		perNs = c.Rate / 1e9
		if c.Transport == "tcp" {
			perNs /= 8 * float64(c.Size)
		}
	}
	sent := perNs * wall
	arrived := sent * (1 - a.Loss)
	size := int64(c.Size)
	s.Stream = &result.Stream{SentMessages: int64(sent), SentBytes: int64(sent) * size, SendNs: int64(wall),
		RecvMessages: int64(arrived), RecvBytes: int64(arrived) * size, RateMessages: int64(arrived / whole),
		RateBytes: int64(arrived/whole) * size, RateNs: int64(c.Slice)}
	if c.Rate > 0 {
		s.Stream.AskedMessages = int64(sent)
	}
	if c.Transport == "tcp" {
		s.Stream.Packets = max(1, int64(sent)*size/1448)
	}
	units := arrived
	if c.Size >= 1024 {
		units *= float64(size) / 1e9
	}
	return work{units, wall}
}

// histogram spreads n replies around rtt with a tail to the right.
func (m *generator) histogram(rtt float64, n int64) []byte {
	h := result.NewRTT()
	for range n {
		v := rtt * math.Exp(0.08*m.rng.NormFloat64())
		if m.rng.Float64() < 0.02 {
			v *= 1 + 3*m.rng.Float64()
		}
		_ = h.RecordValue(min(int64(v), result.MaxRTT)) // in range by then
	}
	enc, err := result.EncodeRTT(h)
	if err != nil {
		panic(fmt.Sprintf("encode a histogram that was just made: %v", err))
	}
	return enc
}

// meters writes the lines of both machines, which share their cores.
func (m *generator) meters(series int, c result.Cell, done []work) {
	perUnit := 4000.0
	switch { // so that two cores are enough
	case (c.Metric == result.Bandwidth || c.Metric == result.CPUPerGB) && c.Size >= 1024:
		perUnit = 3e8
	case c.Metric == result.Bandwidth, c.Metric == result.Messages, c.Metric == result.CPUPerPacket:
		perUnit = 2500
	}
	for i, a := range m.t.Arms {
		factor := a.CPUFactor
		if factor == 0 {
			factor = orOne(a.Factor)
		}
		busy := int64(done[i].units * perUnit * factor * math.Exp(m.t.Noise.Socket*m.rng.NormFloat64()))
		for _, machine := range []string{"a", "b"} {
			line := result.Meter{Cell: c.Name, Arm: a.Name, Series: series, Machine: machine, WallNs: int64(done[i].wall)}
			line.Name, line.Resolution = "cpu", "1 ns busy; classes sampled every 4 ms"
			line.Values = map[string]int64{"busy": busy, "cpu0/busy": busy * 5 / 8, "cpu1/busy": busy - busy*5/8,
				"user": busy / 8, "system": busy / 2, "softirq": busy - busy/8 - busy/2, "steal": 0}
			m.rec.Meters = append(m.rec.Meters, line)
			line.Name, line.Resolution = "softnet", "counts of the whole machine"
			line.Values = map[string]int64{"softnet/processed": int64(done[i].units), "softnet/dropped": 0, "softnet/squeezed": 0}
			if a.Loss > 0 {
				line.Values["softnet/dropped"], line.Values["softnet/squeezed"] = 2, 5
			}
			m.rec.Meters = append(m.rec.Meters, line)
		}
	}
}

// Lines gives a record as the stream that it would be read from.
func Lines(rec *result.Record) []result.Line {
	out := []result.Line{{Header: &rec.Header}, {Plan: &rec.Plan}}
	for i := range rec.Facts {
		out = append(out, result.Line{Facts: &rec.Facts[i]})
	}
	for i := range rec.Warnings {
		out = append(out, result.Line{Warning: &rec.Warnings[i]})
	}
	for i := range rec.Slices {
		out = append(out, result.Line{Slice: &rec.Slices[i]})
	}
	for i := range rec.Meters {
		out = append(out, result.Line{Meter: &rec.Meters[i]})
	}
	if rec.End != nil {
		out = append(out, result.Line{End: rec.End})
	}
	return out
}
