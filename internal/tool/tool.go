// Package tool runs real measuring programs (qperf, iperf3) inside the lab, as
// loads beside our own: to show that the two agree, and for people who trust
// the program that they know.
//
// A tool is a line of [Table]: two command lines and a parser. What they share
// is here: the server is started in the far namespace, awaited until it
// listens, and killed when the run ends, however it ends.
package tool

import (
	"cmp"
	"context"
	"fmt"
	"math"
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

	serverName string // program of the server; empty: that of the client
	port       int    // that its server listens on
	server     func(j Job) []string
	client     func(j Job) []string
	// parse reads what the client wrote on its standard output.
	parse func(j Job, out []byte) (Result, error)
}

// Load is one of our loads that a tool can run, in our name for it.
type Load struct {
	Name     string
	Min, Max int // message sizes that it carries, bytes
}

// Job is one run of a tool.
type Job struct {
	Load      string
	Size      int           // bytes of a message, one message a system call
	Metric    result.Metric // what Result.Value shall be; empty: the usual one of the load
	Duration  time.Duration // whole seconds, at least MinDuration
	From, To  host.Endpoint
	ClientCPU int // -1: not pinned
	ServerCPU int
}

// Totals are what one side handled.
type Totals struct{ Messages, Bytes int64 }

// Result is what a tool reported, in base units.
type Result struct {
	// Value is the figure in the unit of the job's metric: ns (mean RTT/2),
	// bit/s or messages/s at the receiver.
	Value float64
	// Sent and Received are, for a stream, what the sender wrote and what the
	// receiver read; for a ping-pong, the client's requests and replies.
	Sent, Received Totals
	Elapsed        time.Duration // of the side that the figure is from
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
var Table = []*Tool{&qperf, Iperf3}

// Find gives the tool with a name, or a usage error that names them all.
func Find(name string) (*Tool, error) {
	var names []string
	for _, t := range Table {
		if t.Name == name {
			return t, nil
		}
		names = append(names, t.Name)
	}
	return nil, verr.New(verr.Usage, "cannot run beside "+name,
		fmt.Sprintf("there is no tool %q", name), "choose one of: "+strings.Join(names, ", "))
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

// Carries tells whether the tool has a load at a size: nil, or a usage error.
func (t *Tool) Carries(load string, size int) error {
	i := slices.IndexFunc(t.Loads, func(l Load) bool { return l.Name == load })
	if i < 0 {
		var names []string
		for _, l := range t.Loads {
			names = append(names, l.Name)
		}
		return verr.New(verr.Usage, "cannot run "+load+" with "+t.Name,
			t.Name+" has no such load", "choose one of: "+strings.Join(names, ", "))
	}
	if l := t.Loads[i]; size < l.Min || size > l.Max {
		return verr.New(verr.Usage, fmt.Sprintf("cannot run %s at %d bytes with %s", load, size, t.Name),
			fmt.Sprintf("its messages have %d to %d bytes", l.Min, l.Max), "choose a size in that range")
	}
	return nil
}

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
	if !(r.Value > 0) || math.IsInf(r.Value, 0) {
		return Result{}, fmt.Errorf("read the output of %s %s: it reports %v", t.Name, j.Load, r.Value)
	}
	return r, nil
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
	latency := strings.HasSuffix(j.Load, "_lat")
	switch {
	case j.Metric == "" && latency:
		j.Metric = result.OneWay
	case j.Metric == "":
		j.Metric = result.Bandwidth
	case latency != (j.Metric == result.OneWay) || j.Metric == result.Transactions:
		return fmt.Errorf("run %s %s: it has no figure %q", t.Name, j.Load, j.Metric)
	}
	return t.Installed()
}

// converse runs server and client and returns the client's output.
func (t *Tool) converse(ctx context.Context, j Job) ([]byte, error) {
	server, err := start(j.To.Namespace, j.ServerCPU, append([]string{cmp.Or(t.serverName, t.Name)}, t.server(j)...))
	if err != nil {
		return nil, fmt.Errorf("start its server: %w", err)
	}
	defer server.stop()
	if err := server.awaitListen(ctx, t.port); err != nil {
		return nil, fmt.Errorf("await its server: %w", err)
	}
	client, err := start(j.From.Namespace, j.ClientCPU, append([]string{t.Name}, t.client(j)...))
	if err != nil {
		return nil, fmt.Errorf("start its client: %w", err)
	}
	defer client.stop()

	// A tool that lost its other end may wait for ever.
	patience := time.NewTimer(j.Duration + 15*time.Second)
	defer patience.Stop()
	select {
	case <-client.done:
		return client.out.Bytes(), client.failure()
	case <-server.done:
		return nil, fmt.Errorf("its server ended: %w", server.failure())
	case <-patience.C:
		return nil, fmt.Errorf("it did not end within %v", j.Duration+15*time.Second)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
