package agent

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/agent/agentpb"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/load/engine"
)

// A series that is given up before it ends is cleaned up after when it does.
func TestRunGivenUp(t *testing.T) {
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	runs, letGo := make(chan bool), make(chan bool)
	s := newServer(Options{Machine: "m1", Version: "test", Engine: Engine{Run: func(context.Context, load.Plan, engine.SliceObserver, engine.GuestDialer) ([]load.SliceResult, error) {
		runs <- true
		<-letGo
		return nil, context.Canceled
	}}})
	plan, err := planToPB(load.Plan{Token: 7, Load: "udp_lat"})
	if err != nil {
		t.Fatal(err)
	}
	replied := make(chan *agentpb.RunReply)
	go func() {
		reply, err := s.Run(t.Context(), &agentpb.SeriesRequest{Plan: plan})
		if err != nil {
			t.Error(err)
		}
		replied <- reply
	}()
	<-runs
	if _, err := s.Stop(t.Context(), &agentpb.StopRequest{Token: 7, Abort: true}); err != nil {
		t.Fatal(err)
	}
	if reply := <-replied; !reply.GetStopped() {
		t.Errorf("reply %v, want one of a series that was stopped", reply)
	}
	close(letGo)
	percent := []metrics.Sample{{Name: "/gc/gogc:percent"}} // to ask by setting it could turn it off again
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if metrics.Read(percent); percent[0].Value.Uint64() == 100 {
			return
		}
		if time.Now().After(end) {
			t.Fatal("the garbage collector is still off")
		}
	}
}
