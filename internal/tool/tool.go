// Package tool runs real measuring programs (qperf, iperf3, ping, ...) inside the
// lab, as loads beside our own: to show that the two agree, and for people who
// trust the program that they know.
//
// A tool is a line of [Table]: two command lines and a parser. What they share
// is here: the server is started in the far namespace, awaited until it
// listens, and killed when the run ends, however it ends.
package tool

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

// MinDuration is the shortest run that a tool is given. qperf reads the time
// in ticks of 10 ms, which is 0.5 % of two seconds.
const MinDuration = 2 * time.Second

// Tool is one external program.
type Tool struct {
	Name    string
	Package string // Debian package that has it
	Loads   []Load

	serverName string               // program of the server; empty: that of the client
	port       int                  // that its server listens on
	server     func(j Job) []string // nil: the far end's kernel answers
	client     func(j Job) []string
	// parse reads what the client wrote on its standard output.
	parse      func(j Job, out []byte) (Result, error)
	versionArg string // that makes it tell its version; empty: --version
}

// Load is one of our loads that a tool can run, in our name for it.
type Load struct {
	Name     string
	Min, Max int           // message sizes that it carries, bytes
	Size     int           // the tool's own default, bytes
	Metric   result.Metric // of its figure; empty: that of our load
	Meaning  string        // what its figure is, in the tool's terms
	Parallel bool          // it can run several flows at a time
	Paced    bool          // it can be given a rate
}

// Job is one run of a tool.
type Job struct {
	Load      string
	Size      int           // bytes of a message, one message a system call
	Metric    result.Metric // what Result.Value shall be; empty: the usual one of the load
	Flows     int           // at a time; 0: one
	Rate      float64       // per second, of all flows together: bits, or requests; 0: as fast as it goes
	Duration  time.Duration // whole seconds, at least MinDuration
	From, To  host.Endpoint
	ClientCPU int // -1: not pinned
	ServerCPU int
}

// Totals are what one side handled.
type Totals struct{ Messages, Bytes int64 }

// Result is what a tool reported, in base units.
type Result struct {
	// Value is the figure in the unit of the job's metric: ns (mean RTT/2, or mean
	// RTT), bit/s or messages/s at the receiver.
	Value float64
	// Median is that of the round trips, ns, of a tool that tells each; 0: only the mean is known.
	Median float64
	// Sent and Received are, for a stream, what the sender wrote and what the
	// receiver read; for a ping-pong, the client's requests and replies.
	Sent, Received Totals
	Elapsed        time.Duration // of the side that the figure is from
	Retransmits    int64         // TCP segments that the sender sent again, of a tool that tells
}

// LostMessages is how many messages (or replies) went missing. A reply that was still
// on its way when time was up is not one.
func (r Result) LostMessages(m result.Metric) int64 {
	lost := r.Sent.Messages - r.Received.Messages
	if m == result.OneWay {
		lost--
	}
	return max(lost, 0)
}

// Table is every tool.
var Table = []*Tool{&qperf, Iperf3, Ping, Netperf, &sockperf}

// Names lists the tools.
func Names() []string {
	var names []string
	for _, t := range Table {
		names = append(names, t.Name)
	}
	return names
}

// Find gives the tool with a name, or a usage error that names them all.
func Find(name string) (*Tool, error) {
	for _, t := range Table {
		if t.Name == name {
			return t, nil
		}
	}
	return nil, verr.New(verr.Usage, "cannot run the tool "+name,
		fmt.Sprintf("there is no tool %q", name), "choose one of: "+strings.Join(Names(), ", "))
}

// Installed tells whether the programs are on PATH: nil, or what to install.
func (t *Tool) Installed() error {
	for _, program := range []string{t.Name, cmp.Or(t.serverName, t.Name)} {
		if _, err := exec.LookPath(program); err != nil {
			return &verr.Error{Code: verr.Missing, Summary: "cannot run " + t.Name,
				Reason: fmt.Sprintf("there is no program %q on PATH", program),
				Hint:   "install it (Debian: apt-get install " + t.Package + ")", Err: err}
		}
	}
	return nil
}

// Load gives one of the tool's loads, or a usage error that names them all.
func (t *Tool) Load(name string) (Load, error) {
	i := slices.IndexFunc(t.Loads, func(l Load) bool { return l.Name == name })
	if i >= 0 {
		return t.Loads[i], nil
	}
	return Load{}, verr.New(verr.Usage, "cannot run "+name+" with "+t.Name,
		t.Name+" has no such load", "choose one of: "+strings.Join(t.loadNames(), ", "))
}

func (t *Tool) loadNames() []string {
	var names []string
	for _, l := range t.Loads {
		names = append(names, l.Name)
	}
	return names
}

// Carries tells whether the tool has a load at a size: nil, or a usage error.
func (t *Tool) Carries(load string, size int) error {
	l, err := t.Load(load)
	if err != nil {
		return err
	}
	if size < l.Min || size > l.Max {
		return verr.New(verr.Usage, fmt.Sprintf("cannot run %s at %d bytes with %s", load, size, t.Name),
			fmt.Sprintf("its messages have %d to %d bytes", l.Min, l.Max), "choose a size in that range")
	}
	return nil
}

// CheckRun tells whether the tool can run one of its loads with so many flows, and at a
// rate: nil, or a usage error.
func (t *Tool) CheckRun(l Load, flows int, rate float64) error {
	what := fmt.Sprintf("cannot run %s %s", t.Name, l.Name)
	switch {
	case flows > maxParallel && l.Parallel:
		return verr.New(verr.Usage, fmt.Sprintf("%s with %d flows", what, flows), fmt.Sprintf("it takes %d at most", maxParallel), "choose fewer --flows")
	case flows > 1 && !l.Parallel:
		return verr.New(verr.Usage, what+" with several flows", "it has one flow", "leave --flows out, or choose iperf3")
	case rate > 0 && !l.Paced:
		return verr.New(verr.Usage, what+" at a rate", "it goes as fast as it can", "leave --rate out, or choose iperf3 or ping")
	}
	return nil
}

// maxParallel is how many flows iperf3 takes.
const maxParallel = 128

// Run runs one job and returns what the tool reports. Nothing of it is left
// when Run returns. It needs root. Errors: usage and missing program as
// verr.Error; else what the tool itself said.
func (t *Tool) Run(ctx context.Context, j Job) (Result, error) {
	if err := t.check(&j); err != nil {
		return Result{}, err
	}
	out, err := t.converse(ctx, j)
	if err != nil {
		return Result{}, fmt.Errorf("run %s %s: %w", t.Name, j.Load, err)
	}
	return t.read(j, out)
}

// read parses what the client wrote, and believes no figure that cannot be:
// qperf reports 0 with exit code 0 when it could not send at all.
func (t *Tool) read(j Job, out []byte) (Result, error) {
	r, err := t.parse(j, out)
	if err != nil {
		return Result{}, fmt.Errorf("read the output of %s %s: %w", t.Name, j.Load, err)
	}
	if why := r.implausible(); why != "" {
		return Result{}, fmt.Errorf("read the output of %s %s: %s", t.Name, j.Load, why)
	}
	return r, nil
}

// Bounds of what a tool can have measured. They keep every sum that is made of its
// figures within 64 bits.
const (
	mostFigure  = 1e15 // bit/s, messages/s, ns
	mostCounted = 1 << 50
	mostElapsed = 24 * time.Hour
)

// implausible tells why no run can have come to this; empty: one can.
func (r Result) implausible() string {
	if !(r.Value > 0) || r.Value > mostFigure {
		return fmt.Sprintf("it reports %v", r.Value)
	}
	for _, n := range []int64{r.Sent.Messages, r.Sent.Bytes, r.Received.Messages, r.Received.Bytes, r.Retransmits} {
		if n < 0 || n > mostCounted {
			return fmt.Sprintf("it counts %d", n)
		}
	}
	if r.Elapsed <= 0 || r.Elapsed > mostElapsed {
		return fmt.Sprintf("it ran for %v", r.Elapsed)
	}
	return ""
}

// secondsToDuration makes a time of a number that a tool told. One that is not a time, or
// longer than any run, becomes 0, which no run takes.
func secondsToDuration(s float64) time.Duration {
	if !(s > 0) || s > mostElapsed.Seconds() {
		return 0
	}
	return time.Duration(s * float64(time.Second))
}

// count makes a whole number of one that a tool told; what is none, or too large, becomes -1.
func count(v float64) int64 {
	if !(v >= 0) || v > mostCounted {
		return -1
	}
	return int64(v)
}

// check refuses a job that makes no sense, and fills in its metric.
func (t *Tool) check(j *Job) error {
	if err := t.Carries(j.Load, j.Size); err != nil {
		return err
	}
	if j.Duration < MinDuration || j.Duration%time.Second != 0 {
		return verr.New(verr.Usage, "cannot run "+t.Name+" for "+j.Duration.String(),
			"it runs for whole seconds, two at least", "choose such a duration")
	}
	l, err := t.Load(j.Load)
	if err != nil {
		return err
	}
	latency := strings.HasSuffix(j.Load, "_lat")
	switch {
	case j.Flows > 1 && !l.Parallel:
		return t.CheckRun(l, j.Flows, 0)
	case j.Rate > 0 && !l.Paced:
		return t.CheckRun(l, 1, j.Rate)
	case j.Metric == "" && l.Metric != "":
		j.Metric = l.Metric
	case j.Metric == "" && latency:
		j.Metric = result.OneWay
	case j.Metric == "":
		j.Metric = result.Bandwidth
	case l.Metric != "" && l.Metric == j.Metric:
	case latency != (j.Metric == result.OneWay) || l.Metric != "" ||
		!slices.Contains([]result.Metric{result.OneWay, result.Bandwidth, result.Messages}, j.Metric):
		return fmt.Errorf("run %s %s: it has no figure %q", t.Name, j.Load, j.Metric)
	}
	return t.Installed()
}

// converse runs server and client and returns the client's output.
func (t *Tool) converse(ctx context.Context, j Job) ([]byte, error) {
	server, stop, err := t.serve(ctx, j)
	if err != nil {
		return nil, err
	}
	defer stop()
	client, err := start(j.From.Namespace, j.ClientCPU, append([]string{t.Name}, t.client(j)...))
	if err != nil {
		return nil, fmt.Errorf("start its client: %w", err)
	}
	defer client.stop()

	// A tool that lost its other end may wait for ever.
	timeout := time.NewTimer(j.Duration + 15*time.Second)
	defer timeout.Stop()
	select {
	case <-client.done:
		if client.out.truncated {
			return nil, fmt.Errorf("it wrote more than %d bytes", mostOutput)
		}
		return client.out.Bytes(), client.failure()
	case <-server.done:
		return nil, fmt.Errorf("its server ended: %w", server.failure())
	case <-timeout.C:
		return nil, fmt.Errorf("it did not end within %v", j.Duration+15*time.Second)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// serve starts the server of a job and waits until it listens. A tool without one has a
// server that never ends.
func (t *Tool) serve(ctx context.Context, j Job) (server *process, stop func(), err error) {
	if t.server == nil {
		return &process{}, func() {}, nil
	}
	server, err = start(j.To.Namespace, j.ServerCPU, append([]string{cmp.Or(t.serverName, t.Name)}, t.server(j)...))
	if err != nil {
		return nil, nil, fmt.Errorf("start its server: %w", err)
	}
	if err := server.awaitListen(ctx, t.port); err != nil {
		server.stop()
		return nil, nil, fmt.Errorf("await its server: %w", err)
	}
	return server, server.stop, nil
}
