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

// Lossless is the check that nothing is lost when the fast path's daemon comes, goes,
// is replaced or killed.
type Lossless struct {
	Paths     []string
	Services  int           // whose rules the machines have
	Cycles    int           // of each kind
	Alone     int           // cycles in which a killed daemon has no successor for 5 s
	Datagrams int           // a second, both ways together
	Streams   int           // of TCP
	Rate      int           // bytes a second, of each stream, each way
	Still     time.Duration // without cycles, with the slow path alone and with the fast one
}

// DefaultLossless is what a claim that nothing is lost rests on.
func DefaultLossless() Lossless {
	return Lossless{
		Paths: []string{"vxlan+fast", "routed+fast"}, Services: fastServices,
		Cycles: 20, Alone: 20, Datagrams: 20000, Streams: 8, Rate: 10 << 20, Still: 30 * time.Second,
	}
}

// stepsAside is for how long a fast path may carry packets that has no daemon.
const stepsAside = 5 * time.Second

// rest is how long things stay as they are between two steps of a cycle.
const respite = 100 * time.Millisecond

// cycle is a way to come and go.
type cycle struct {
	name string
	do   func(context.Context, *fastDaemon) error
}

var cycles = []cycle{
	{"stopped, started", func(ctx context.Context, d *fastDaemon) error {
		if err := d.end(ctx, syscall.SIGTERM); err != nil {
			return err
		}
		wait(ctx, respite)
		return d.start(false)
	}},
	{"replaced", func(ctx context.Context, d *fastDaemon) error {
		old := d.pid
		return keepsCounting(d, func() error { return errors.Join(d.start(true), gone(ctx, old), d.carries(ctx)) })
	}},
	{"killed, started", func(ctx context.Context, d *fastDaemon) error {
		if err := d.end(ctx, syscall.SIGKILL); err != nil {
			return err
		}
		return keepsCounting(d, func() error { return errors.Join(d.start(false), d.carries(ctx)) })
	}},
	{"killed at some moment", func(ctx context.Context, d *fastDaemon) error {
		return errors.Join(d.send(syscall.SIGTERM), d.killSoon(ctx, 10*time.Millisecond),
			d.start(false), d.killSoon(ctx, respite), d.start(false))
	}},
	{killedAlone, func(ctx context.Context, d *fastDaemon) error {
		killed := time.Now()
		if err := d.end(ctx, syscall.SIGKILL); err != nil {
			return err
		}
		wait(ctx, time.Until(killed.Add(stepsAside)))
		return keepsCounting(d, func() error { return errors.Join(d.asideNow(ctx), d.start(false), d.carries(ctx)) })
	}},
}

// killedAlone is the kind of cycle that takes its time.
const killedAlone = "killed, 5 s alone, started"

// keepsCounting wants the next daemon to go on with what was counted.
func keepsCounting(d *fastDaemon, what func() error) error {
	before, err := d.counted()
	if err != nil {
		return err
	}
	if err := what(); err != nil {
		return err
	}
	now, err := d.counted()
	if err == nil && now[bpf.CarriedOut] < before[bpf.CarriedOut] {
		return fmt.Errorf("the next daemon began anew: %d packets carried, and %d before", now[bpf.CarriedOut], before[bpf.CarriedOut])
	}
	return err
}

// asideNow wants the programs to leave packets to the slow path, because there is no
// daemon, and to carry none.
func (d *fastDaemon) asideNow(ctx context.Context) error {
	before, err := d.counted()
	if err != nil {
		return err
	}
	err = until(ctx, "packets go slow", func() (bool, error) {
		const some = 100
		now, err := d.counted()
		return now[bpf.SlowNoDaemon]+now[bpf.PerDirection+bpf.SlowNoDaemon] >= before[bpf.SlowNoDaemon]+before[bpf.PerDirection+bpf.SlowNoDaemon]+some, err
	})
	if err != nil {
		return err
	}
	now, err := d.counted()
	if err == nil && (now[bpf.CarriedOut] != before[bpf.CarriedOut] || now[bpf.CarriedIn] != before[bpf.CarriedIn]) {
		return fmt.Errorf("%v after its daemon was killed, a fast path carries packets: %v, before %v", stepsAside, now, before)
	}
	return err
}

// Outcome is what became of the traffic during one kind of cycle, or without any.
type Outcome struct {
	Path, Kind string
	Cycles     int
	// Again is how many cycles more were played because this machine had thrown
	// packets away in them: Excused datagrams were lost there, and are not in Lost.
	Again                        int
	Excused                      uint64
	Took                         time.Duration
	Sent, Lost, Twice, Overtaken uint64 // datagrams
	Opened, Bytes                uint64 // connections; of streams
	// Retransmitted are segments of TCP; Needless those of them of which the other
	// end said that it had them already. The others were lost.
	Retransmitted, Needless uint64
	Broken                  []string
	Backlog, Receiver       uint64 // packets that this machine threw away: queues of its cores, of sockets
}

// check plays all cycles, and prints what became of the traffic on w: nothing is to
// be lost.
func (c Lossless) check(ctx context.Context, w io.Writer, h compare.Host) ([]verify.Bar, error) {
	all, err := c.Run(ctx, h)
	if err != nil {
		return nil, err
	}
	printOutcomes(w, all)
	var bars []verify.Bar
	for _, o := range all {
		if o.Cycles == 0 {
			continue
		}
		what := fmt.Sprintf("%s, %s, %d cycles: ", o.Path, o.Kind, o.Cycles)
		bars = append(bars,
			verify.Bar{Text: what + fmt.Sprintf("%d of %d datagrams lost, none is to be", o.Lost, o.Sent), Holds: o.Lost == 0 && o.Sent > 0},
			verify.Bar{Text: what + fmt.Sprintf("%d connections lost, none is to be", len(o.Broken)), Holds: len(o.Broken) == 0 && o.Opened > 0})
	}
	return bars, nil
}

// Run plays all cycles, each path for itself.
func (c Lossless) Run(ctx context.Context, h compare.Host) ([]Outcome, error) {
	var all []Outcome
	for _, p := range c.Paths {
		one, err := c.path(ctx, h, p)
		all = append(all, one...)
		if err != nil {
			return all, verr.Wrap(verr.Failed, "cannot check what is lost on "+p, err, "run it again; if it happens again, it is a defect to report")
		}
	}
	return all, nil
}

// path plays the cycles on one path.
func (c Lossless) path(ctx context.Context, h compare.Host, name string) (all []Outcome, err error) {
	l, err := lab.Up(ctx, lab.Options{Name: h.LabName, Paths: []string{name}, Services: c.Services, Program: h.Program})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Down()) }()
	r := &run{Lossless: c, arm: l.Arms[0]}
	for i := range l.Machines {
		d, err := daemonOf(l, h.Program, r.arm, i)
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
	for _, step := range []func(context.Context) (Outcome, error){r.slow, r.fast} {
		if c.Still == 0 {
			break
		}
		o, err := step(ctx)
		if err != nil {
			return all, err
		}
		all = append(all, o)
	}
	for _, d := range r.daemons {
		if err := d.carries(ctx); err != nil {
			return all, err
		}
		if d.attached, err = bpf.Attached(d.pins); err != nil {
			return all, err
		}
	}
	for _, kind := range cycles {
		n := c.Cycles
		if kind.name == killedAlone {
			n = c.Alone
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

// run is what goes on on one path.
type run struct {
	Lossless
	arm     lab.Arm
	daemons []*fastDaemon
	traffic *traffic
}

// slow is the path without its fast path.
func (r *run) slow(ctx context.Context) (o Outcome, err error) {
	for _, d := range r.daemons {
		if err := d.end(ctx, syscall.SIGTERM); err != nil {
			return o, err
		}
	}
	if o, err = r.still(ctx, "slow path, no cycles"); err != nil {
		return o, err
	}
	for _, d := range r.daemons {
		err = errors.Join(err, d.start(false))
	}
	// What a slow machine sends is not carried by the other one: it has a checksum
	// around it.
	for _, d := range r.daemons {
		err = errors.Join(err, d.carries(ctx))
	}
	return o, err
}

func (r *run) fast(ctx context.Context) (Outcome, error) {
	return r.still(ctx, "fast path, no cycles")
}

func (r *run) still(ctx context.Context, kind string) (Outcome, error) {
	o := Outcome{Path: r.arm.Name, Kind: kind}
	before, err := r.look()
	if err != nil {
		return o, err
	}
	wait(ctx, r.Still)
	after, err := r.look()
	o.add(before, after)
	return o, err
}

// tooOften is how many cycles more are played, for each one that counts, at most.
const tooOften = 2

// play plays cycles of a kind, on each machine in turn.
func (r *run) play(ctx context.Context, kind cycle, n int) (Outcome, error) {
	o := Outcome{Path: r.arm.Name, Kind: kind.name}
	for o.Cycles < n {
		d := r.daemons[o.Cycles%len(r.daemons)]
		before, err := r.look()
		if err != nil {
			return o, err
		}
		if err := kind.do(ctx, d); err != nil {
			return o, err
		}
		if err := errors.Join(d.carries(ctx), d.whole()); err != nil {
			return o, err
		}
		wait(ctx, respite)
		after, err := r.look()
		if err != nil {
			return o, err
		}
		if lost := after.lost - before.lost; lost > 0 && excused(before, after) && o.Again < tooOften*n {
			o.Again++
			o.Excused += lost
			continue
		}
		o.Cycles++
		o.add(before, after)
	}
	return o, nil
}

// seen is what has become of the traffic so far, and what the machine has done to
// it that no path is to blame for.
type seen struct {
	tally
	at                                       time.Time
	backlog, receiver, retransmits, needless uint64
}

// excused: of what was lost between the two, this machine itself has thrown as much
// away, by its own count. What is lost beyond that is the path's.
func excused(before, after seen) bool {
	machines := after.backlog - before.backlog + after.receiver - before.receiver
	return after.lost-before.lost <= machines && len(after.broken) == len(before.broken)
}

// look counts while nothing is under way: a datagram that is lost and the count of
// the queue that had no room for it are in the same look.
func (r *run) look() (s seen, err error) {
	r.traffic.gate.Lock()
	defer r.traffic.gate.Unlock()
	s.tally, s.at = r.traffic.take(), time.Now()
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

func (o *Outcome) add(before, after seen) {
	o.Took += after.at.Sub(before.at)
	o.Sent += after.sent - before.sent
	o.Lost += after.lost - before.lost
	o.Twice += after.twice - before.twice
	o.Overtaken += after.overtaken - before.overtaken
	o.Opened += after.opened - before.opened
	o.Bytes += after.bytes - before.bytes
	o.Retransmitted += after.retransmits - before.retransmits
	o.Needless += after.needless - before.needless
	o.Broken = append(o.Broken, slices.Clone(after.broken[len(before.broken):])...)
	o.Backlog += after.backlog - before.backlog
	o.Receiver += after.receiver - before.receiver
}

func printOutcomes(w io.Writer, all []Outcome) {
	const line = "%-12s %-28s %6v %10v %6v %6v %10v %8v %8v %8v %7v %8v %8v\n"
	fmt.Fprintf(w, line, "path", "what goes on", "cycles", "datagrams", "lost", "twice", "overtaken", "opened", "broken", "MB", "retrans", "needless", "dropped")
	for _, o := range all {
		fmt.Fprintf(w, line, o.Path, o.Kind, o.Cycles, o.Sent, o.Lost, o.Twice, o.Overtaken, o.Opened, len(o.Broken), o.Bytes>>20, o.Retransmitted, o.Needless, o.Backlog+o.Receiver)
		if o.Again > 0 {
			fmt.Fprintf(w, "%-12s   %d cycles more were played: this machine itself threw packets away in them, and %d datagrams were lost\n", "", o.Again, o.Excused)
		}
		if len(o.Broken) > 0 {
			fmt.Fprintf(w, "%-12s   broken: %s\n", "", strings.Join(o.Broken[:min(3, len(o.Broken))], "; "))
		}
	}
	fmt.Fprintln(w)
}
