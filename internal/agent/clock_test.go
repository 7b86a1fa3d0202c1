package agent

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/venturi-net/venturi/internal/agent/agentpb"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/result"
)

// otherClock is an agent whose clock is ahead of ours, and runs faster, behind a line that takes
// its time.
type otherClock struct {
	agentpb.AgentClient
	agentpb.Agent_BeatsClient
	began  time.Time
	offset time.Duration
	drift  float64
	ended  chan struct{}
}

const (
	lineDelay = 100 * time.Millisecond // each way
	sliceWait = time.Hour              // until the slice
)

// read is what its clock shows.
func (a otherClock) read() time.Time {
	since := time.Since(a.began)
	return a.began.Add(a.offset + since + time.Duration(a.drift*float64(since)))
}

func (a otherClock) Version(context.Context, *agentpb.VersionRequest, ...grpc.CallOption) (*agentpb.VersionReply, error) {
	time.Sleep(lineDelay)
	defer time.Sleep(lineDelay)
	return &agentpb.VersionReply{Now: a.read().UnixNano()}, nil
}

func (a otherClock) Run(context.Context, *agentpb.SeriesRequest, ...grpc.CallOption) (*agentpb.RunReply, error) {
	slice := load.SliceResult{Start: a.read(), Elapsed: 25 * time.Millisecond, Latency: &result.Latency{Replies: 7, RTTSum: 7000, RTTMedian: 1000}}
	return &agentpb.RunReply{Slices: []*agentpb.Slice{sliceToPB(slice)}}, nil
}

func (a otherClock) Beats(context.Context, ...grpc.CallOption) (agentpb.Agent_BeatsClient, error) {
	return a, nil
}

func (a otherClock) Send(*agentpb.Beat) error { return nil }

func (a otherClock) Recv() (*agentpb.Beat, error) {
	<-a.ended
	return nil, status.Error(codes.Unavailable, "EOF")
}

// An agent's clock that is a day away from ours, and drifts by 500 ppm, says nothing but when a slice
// began: by ours, and as far off as it has drifted since it was read.
func TestOtherClock(t *testing.T) {
	const drift = 500e-6
	for name, a := range map[string]otherClock{
		"ahead and fast": {offset: 24 * time.Hour, drift: drift}, "behind and slow": {offset: -24 * time.Hour, drift: -drift}, "right": {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a.began, a.ended = time.Now(), make(chan struct{})
				defer close(a.ended)
				c := &Client{machine: "n1", timeoutScale: 1, api: a}
				asked := time.Now()
				v, err := c.api.Version(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				c.setClock(asked, v)
				time.Sleep(sliceWait)
				l, err := Watch(t.Context(), c)
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				began := time.Now()
				slices, _, err := c.Run(t.Context(), load.Plan{Load: "tcp_lat", Slice: time.Second, Flows: 1}, nil)
				if err != nil || len(slices) != 1 {
					t.Fatalf("%d slices, %v", len(slices), err)
				}
				s := slices[0]
				most := time.Duration(drift * float64(sliceWait+4*lineDelay))
				if off := s.Start.Sub(began).Abs(); off > most || a.drift == 0 && off != 0 {
					t.Errorf("the slice is said to have begun %v from when it did", off)
				}
				if s.Elapsed != 25*time.Millisecond || s.Latency.RTTSum != 7000 || s.Latency.RTTMedian != 1000 || s.Latency.Replies != 7 {
					t.Errorf("the figures are %v and %+v", s.Elapsed, s.Latency)
				}
			})
		})
	}
}
