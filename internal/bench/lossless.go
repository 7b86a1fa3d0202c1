package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/verify"
	"github.com/venturi-net/venturi/internal/verr"
)

// Lossless checks that nothing is lost when the fast path's daemon starts, stops, is
// replaced or is killed.
type Lossless struct {
	Paths      []string
	Services   int           // whose rules the machines have
	Cycles     int           // of each kind
	Unattended int           // cycles in which a killed daemon has no successor for 5 s
	Datagrams  int           // a second, both ways together
	Streams    int           // of TCP
	Rate       int           // bytes a second, of each stream, each way
	Baseline   time.Duration // without cycles, with the slow path alone and with the fast one
}

// DefaultLossless is what a claim that nothing is lost rests on.
func DefaultLossless() Lossless {
	return Lossless{
		Paths: []string{"vxlan+fast", "routed+fast"}, Services: fastServices,
		Cycles: 20, Unattended: 20, Datagrams: 20000, Streams: 8, Rate: 10 << 20, Baseline: 30 * time.Second,
	}
}

// CycleOutcome is what became of the traffic during one kind of cycle, or without any.
type CycleOutcome struct {
	Path, Kind string
	Cycles     int
	// Repeated counts the cycles that were run again because this machine itself had
	// dropped packets in them. LostByMachine are the datagrams lost there; Lost does not
	// count them.
	Repeated                          int
	LostByMachine                     uint64
	Took                              time.Duration
	Sent, Lost, Duplicates, Reordered uint64 // datagrams
	Opened, Bytes                     uint64 // connections; of streams
	// Retransmitted are segments of TCP; Needless those of them of which the other
	// end said that it had them already. The others were lost.
	Retransmitted, Needless uint64
	Broken                  []string
	Backlog, Receiver       uint64 // packets that this machine threw away: queues of its cores, of sockets
}

// check runs all cycles, prints what became of the traffic, and expects no loss.
func (c Lossless) check(ctx context.Context, w io.Writer, h compare.Host) ([]verify.Requirement, error) {
	all, err := c.Run(ctx, h)
	if err != nil {
		return nil, err
	}
	printOutcomes(w, all)
	return NoLoss(all), nil
}

// NoLoss requires that nothing was lost in any cycle.
func NoLoss(all []CycleOutcome) (limits []verify.Requirement) {
	for _, o := range all {
		if o.Cycles == 0 {
			continue
		}
		what := fmt.Sprintf("%s, %s, %d cycles: ", o.Path, o.Kind, o.Cycles)
		limits = append(limits,
			verify.Requirement{Text: what + fmt.Sprintf("%d of %d datagrams lost, none allowed", o.Lost, o.Sent), Holds: o.Lost == 0 && o.Sent > 0},
			verify.Requirement{Text: what + fmt.Sprintf("%d connections lost, none allowed", len(o.Broken)), Holds: len(o.Broken) == 0 && o.Opened > 0})
	}
	return limits
}

// Run runs all cycles, on one path after another.
func (c Lossless) Run(ctx context.Context, h compare.Host) ([]CycleOutcome, error) {
	var all []CycleOutcome
	for _, p := range c.Paths {
		one, err := c.path(ctx, h, p)
		all = append(all, one...)
		if err != nil {
			return all, verr.Wrap(verr.Failed, "cannot check what is lost on "+p, err, "run it again; if it happens again, it is a defect to report")
		}
	}
	return all, nil
}

// path runs the cycles on one path.
func (c Lossless) path(ctx context.Context, h compare.Host, name string) (all []CycleOutcome, err error) {
	l, err := lab.Up(ctx, lab.Options{Name: h.LabName, Paths: []string{name}, Services: c.Services, Program: h.Program})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Down()) }()
	return c.RunArm(ctx, l, l.Arms[0], h.Program)
}

// RunArm runs all cycles on an arm of a lab. A machine for which the arm has no pins has no daemon of its own.
func (c Lossless) RunArm(ctx context.Context, l *lab.Lab, arm lab.Arm, program []string) (all []CycleOutcome, err error) {
	r := &run{Lossless: c, arm: arm}
	for i, pins := range arm.Pins {
		if pins == "" {
			continue
		}
		d, err := daemonOf(l, program, arm, i)
		if err != nil {
			return nil, err
		}
		defer d.close()
		r.daemons = append(r.daemons, d)
	}
	r.traffic, err = startTraffic(ctx, r.arm.Client(), r.arm.Server(), trafficRate{c.Datagrams, c.Streams, c.Rate})
	if err != nil {
		return nil, err
	}
	defer r.traffic.close()
	for _, step := range []func(context.Context) (CycleOutcome, error){r.slowBaseline, r.fastBaseline} {
		if c.Baseline == 0 {
			break
		}
		o, err := step(ctx)
		if err != nil {
			return all, err
		}
		all = append(all, o)
	}
	for _, d := range r.daemons {
		if err := d.awaitCarrying(ctx); err != nil {
			return all, err
		}
		if d.attached, err = bpf.Attached(d.pins); err != nil {
			return all, err
		}
	}
	for _, kind := range cycles {
		n := c.Cycles
		if kind.name == killedUnattended {
			n = c.Unattended
		}
		if n == 0 {
			continue
		}
		o, err := r.play(ctx, kind, n)
		all = append(all, o)
		if err != nil {
			return all, fmt.Errorf("%s: %w", kind.name, err)
		}
	}
	return all, nil
}

// run is the state of the check on one path.
type run struct {
	Lossless
	arm     lab.Arm
	daemons []*fastDaemon
	traffic *traffic
}

// slowBaseline measures the path without its fast path.
func (r *run) slowBaseline(ctx context.Context) (o CycleOutcome, err error) {
	for _, d := range r.daemons {
		if err := d.end(ctx, syscall.SIGTERM); err != nil {
			return o, err
		}
	}
	if o, err = r.baseline(ctx, "slow path, no cycles"); err != nil {
		return o, err
	}
	for _, d := range r.daemons {
		err = errors.Join(err, d.start(false))
	}
	// What a slow machine sends is not carried by the other one: it has a checksum
	// around it.
	for _, d := range r.daemons {
		err = errors.Join(err, d.awaitCarrying(ctx))
	}
	return o, err
}

func (r *run) fastBaseline(ctx context.Context) (CycleOutcome, error) {
	return r.baseline(ctx, "fast path, no cycles")
}

func (r *run) baseline(ctx context.Context, kind string) (CycleOutcome, error) {
	o := CycleOutcome{Path: r.arm.Name, Kind: kind}
	before, err := r.snapshot()
	if err != nil {
		return o, err
	}
	_ = host.Sleep(ctx, r.Baseline)
	after, err := r.snapshot()
	o.add(before, after)
	return o, err
}

// maxRepeats is how often a cycle that counts may be repeated, on average.
const maxRepeats = 2

// play runs cycles of one kind, on each machine in turn.
func (r *run) play(ctx context.Context, kind cycle, n int) (CycleOutcome, error) {
	o := CycleOutcome{Path: r.arm.Name, Kind: kind.name}
	for o.Cycles < n {
		d := r.daemons[o.Cycles%len(r.daemons)]
		before, err := r.snapshot()
		if err != nil {
			return o, err
		}
		if err := kind.do(ctx, d); err != nil {
			return o, err
		}
		if err := errors.Join(d.awaitCarrying(ctx), d.checkAttached(ctx)); err != nil {
			return o, err
		}
		_ = host.Sleep(ctx, settleTime)
		after, err := r.snapshot()
		if err != nil {
			return o, err
		}
		if lost := after.lost - before.lost; lost > 0 && lostByMachine(before, after) && o.Repeated < maxRepeats*n {
			o.Repeated++
			o.LostByMachine += lost
			continue
		}
		o.Cycles++
		o.add(before, after)
	}
	return o, nil
}

// snapshot is what has become of the traffic so far, and the machine's own drop counters,
// for which no path is to blame.
type snapshot struct {
	tally
	time                                     time.Time
	backlog, receiver, retransmits, needless uint64
}

// lostByMachine tells whether this machine itself dropped, by its own counters, at least
// as many packets as were lost between two snapshots. Any further loss is the path's.
func lostByMachine(before, after snapshot) bool {
	machines := after.backlog - before.backlog + after.receiver - before.receiver
	return after.lost-before.lost <= machines && len(after.broken) == len(before.broken)
}

// snapshot reads the counters while nothing is sent: a datagram that is lost and the drop
// counter of the queue that dropped it are in the same snapshot.
func (r *run) snapshot() (s snapshot, err error) {
	r.traffic.gate.Lock()
	defer r.traffic.gate.Unlock()
	s.tally, s.time = r.traffic.awaitQuiet(), time.Now()
	for _, cpu := range (host.Reader{}).CPUCounters() {
		s.backlog += cpu.Dropped
	}
	for _, pod := range []host.Endpoint{r.arm.Client(), r.arm.Server()} {
		err := host.Do(pod.Namespace, func() error {
			counters := host.Reader{}.Protocols()
			s.receiver += counters["Udp/RcvbufErrors"]
			s.retransmits += counters["Tcp/RetransSegs"]
			s.needless += host.Reader{}.ProtocolsMore()["TcpExt/TCPDSACKRecv"]
			return nil
		})
		if err != nil {
			return s, err
		}
	}
	return s, nil
}

func (o *CycleOutcome) add(before, after snapshot) {
	o.Took += after.time.Sub(before.time)
	o.Sent += after.sent - before.sent
	o.Lost += after.lost - before.lost
	o.Duplicates += after.duplicates - before.duplicates
	o.Reordered += after.reordered - before.reordered
	o.Opened += after.opened - before.opened
	o.Bytes += after.bytes - before.bytes
	o.Retransmitted += after.retransmits - before.retransmits
	o.Needless += after.needless - before.needless
	o.Broken = append(o.Broken, slices.Clone(after.broken[len(before.broken):])...)
	o.Backlog += after.backlog - before.backlog
	o.Receiver += after.receiver - before.receiver
}

func printOutcomes(w io.Writer, all []CycleOutcome) {
	const line = "%-12s %-28s %6v %10v %6v %6v %10v %8v %8v %8v %7v %8v %8v\n"
	fmt.Fprintf(w, line, "path", "cycle", "cycles", "datagrams", "lost", "dup", "reordered", "opened", "broken", "MB", "retrans", "needless", "dropped")
	for _, o := range all {
		fmt.Fprintf(w, line, o.Path, o.Kind, o.Cycles, o.Sent, o.Lost, o.Duplicates, o.Reordered, o.Opened, len(o.Broken), o.Bytes>>20, o.Retransmitted, o.Needless, o.Backlog+o.Receiver)
		if o.Repeated > 0 {
			fmt.Fprintf(w, "%-12s   %d cycles were repeated: this machine itself dropped packets in them, and %d datagrams were lost\n", "", o.Repeated, o.LostByMachine)
		}
		if len(o.Broken) > 0 {
			fmt.Fprintf(w, "%-12s   broken: %s\n", "", strings.Join(o.Broken[:min(3, len(o.Broken))], "; "))
		}
	}
	fmt.Fprintln(w)
}
