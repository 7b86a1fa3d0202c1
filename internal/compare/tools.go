package compare

import (
	"cmp"
	"context"
	"errors"

	"github.com/venturi-net/venturi/internal/experiment"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/meter"
	"github.com/venturi-net/venturi/internal/tool"
	"github.com/venturi-net/venturi/result"
)

// tools makes the named tools usable beside our loads, on machines with some cores. The names have been
// checked.
func tools(names []string, cores map[string][]int) map[string]experiment.Tool {
	with := map[string]experiment.Tool{}
	for _, name := range names {
		if t, err := tool.Find(name); err == nil {
			with[name] = toolRunner{t, cores}
		}
	}
	return with
}

// toolRunner runs a tool in place of a slice, with the CPU meter around it: its
// start and end are in the figure, which over two seconds is below a percent.
type toolRunner struct {
	tool  *tool.Tool
	cores map[string][]int // of each machine of a lab; none: all share the host's
}

// recorders opens the CPU meter of each machine that has cores of its own, or else one of the host.
func (b toolRunner) recorders(pair load.Pair) (out []*meter.Recorder, err error) {
	machines := []string{pair.From.Machine}
	if len(b.cores) > 0 && pair.To.Machine != pair.From.Machine {
		machines = append(machines, pair.To.Machine)
	}
	for _, machine := range machines {
		rec, err := meter.NewRecorder(machine, []string{"cpu"}, meter.Setup{Arms: []meter.Arm{{Name: b.tool.Name}}, Cores: b.cores[machine]})
		if err != nil {
			return nil, errors.Join(err, closeAll(out))
		}
		out = append(out, rec)
	}
	return out, nil
}

func closeAll(recorders []*meter.Recorder) error {
	var errs []error
	for _, rec := range recorders {
		errs = append(errs, rec.Close())
	}
	return errors.Join(errs...)
}

func (b toolRunner) Measure(ctx context.Context, cell result.Cell, ends experiment.Ends, clientCPU, serverCPU int) (s result.Slice, m []result.Meter, err error) {
	pair := ends.Pairs[0]
	if pair.From.Agent != "" || pair.To.Agent != "" {
		return s, nil, errors.New("tools run on the machines, but this path ends in virtual machines")
	}
	recorders, err := b.recorders(pair)
	if err != nil {
		return s, nil, err
	}
	defer func() { err = errors.Join(err, closeAll(recorders)) }()
	for _, rec := range recorders {
		rec.Begin(0)
	}
	r, err := b.tool.Run(ctx, tool.Job{
		Load: cmp.Or(cell.ToolLoad(), cell.Load), Size: cell.Size, Metric: cell.Metric, Duration: cell.Slice,
		Flows: cell.Flows, Rate: cell.Rate,
		From: pair.From, To: pair.To, ClientCPU: clientCPU, ServerCPU: serverCPU,
	})
	for _, rec := range recorders {
		rec.End(0)
		m = append(m, rec.Meters()...)
	}
	if err != nil {
		return s, nil, err
	}
	return asSlice(cell, r), m, nil
}

// asSlice puts a tool's figure into the form of ours. The tool gives rates, so
// the sums of the slice are made to yield them over its time.
func asSlice(cell result.Cell, r tool.Result) result.Slice {
	ns := r.Elapsed.Nanoseconds()
	s := result.Slice{Elapsed: ns}
	if cell.Metric == result.OneWay || cell.Metric == result.RoundTrip {
		rtt := r.Value
		if cell.Metric == result.OneWay {
			rtt *= 2
		}
		s.Latency = &result.Latency{
			Requests: r.Sent.Messages, Replies: r.Received.Messages, Lost: r.LostMessages(cell.Metric),
			RTTSum: int64(rtt * float64(r.Received.Messages)), RTTMedian: int64(r.Median),
		}
		return s
	}
	st := &result.Stream{
		SentMessages: r.Sent.Messages, SentBytes: r.Sent.Bytes, SendNs: ns,
		RecvMessages: r.Received.Messages, RecvBytes: r.Received.Bytes,
		RateMessages: r.Received.Messages, RateBytes: r.Received.Bytes, RateNs: ns, Retransmits: r.Retransmits,
	}
	// What the tool calls its rate counts, not our quotient of rounded sums.
	switch {
	case cell.Metric == result.Messages && r.Value > 0:
		st.RateNs = int64(float64(st.RateMessages) / r.Value * 1e9)
	case r.Value > 0:
		st.RateNs = int64(float64(st.RateBytes) * 8 / r.Value * 1e9)
	}
	s.Stream = st
	return s
}
