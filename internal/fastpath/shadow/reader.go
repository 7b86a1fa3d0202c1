package shadow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/perf"
)

const (
	// pause is how long records gather before they are read.
	pause = 5 * time.Millisecond
	// reportEvery is how often a result is reported.
	reportEvery = 100 * time.Millisecond
	// buffers are the memory for records of all cores, and the limits for each core, bytes.
	buffers, minBuffer, maxBuffer = 64 << 20, 1 << 19, 8 << 20
)

// Run compares until ctx ends. state is what the daemon knows of the network now; report gets what
// was found until then, and at the end all of it.
func Run(ctx context.Context, records *ebpf.Map, state func() (State, error), report func(Result)) error {
	size := min(max(buffers/ebpf.MustPossibleCPU(), minBuffer), maxBuffer)
	reader, err := perf.NewReaderWithOptions(records, size, perf.ReaderOptions{Watermark: size / 2})
	if err != nil {
		return fmt.Errorf("open the records of packets: %w", err)
	}
	defer reader.Close()
	c := newComparer()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for next := time.Now(); ; timer.Reset(pause) {
		end := false
		select {
		case <-ctx.Done():
			end = true
		case <-timer.C:
		}
		packets, lost, err := readAll(reader)
		if err != nil {
			return err
		}
		now := time.Now()
		s, err := state()
		if err != nil {
			return err
		}
		c.add(packets, lost, now)
		if end {
			c.add(nil, false, now)
		}
		c.confirmMismatches(now, s, end)
		if end || !now.Before(next) {
			next = now.Add(reportEvery)
			report(c.snapshot())
		}
		if end {
			return nil
		}
	}
}

// readAll reads what the rings of all cores have.
func readAll(reader *perf.Reader) (packets []*packet, lost bool, err error) {
	if err := reader.Flush(); err != nil {
		return nil, false, fmt.Errorf("read the records of packets: %w", err)
	}
	var r perf.Record
	for {
		err := reader.ReadInto(&r)
		if errors.Is(err, perf.ErrFlushed) {
			return packets, lost, nil
		}
		if err != nil {
			return nil, false, fmt.Errorf("read the records of packets: %w", err)
		}
		if r.LostSamples > 0 {
			lost = true
			continue
		}
		p, err := decode(r.RawSample)
		if err != nil {
			return nil, false, err
		}
		packets = append(packets, p)
	}
}
