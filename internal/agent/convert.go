package agent

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/venturi-net/venturi/internal/agent/agentpb"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

// The functions here turn our types into messages and back. Each pair is the
// other's inverse; a test fills every field there is and holds them to it.

func planToPB(p load.Plan) (*agentpb.Plan, error) {
	out := &agentpb.Plan{
		Token: p.Token, Load: p.Load, Size: int64(p.Size), Flows: int64(p.Flows), Batch: int64(p.Batch),
		Slice: int64(p.Slice), Head: int64(p.Head), ClientCpu: int64(p.ClientCPU), ServerCpu: int64(p.ServerCPU),
		Congestion: p.Congestion, Rate: p.Rate, Response: int64(p.Response), Nonce: p.Nonce[:],
		Threads: int64(p.Threads), ClientCpus: convert(p.ClientCPUs, toInt64), ServerCpus: convert(p.ServerCPUs, toInt64),
	}
	if b := p.Background; b != nil {
		out.Beside = &agentpb.Background{Load: b.Load, Size: int64(b.Size), Flows: int64(b.Flows), Rate: b.Rate,
			ClientCpu: int64(b.ClientCPU), ServerCpu: int64(b.ServerCPU)}
	}
	for _, a := range p.Arms {
		arm := &agentpb.Arm{
			Name: a.Name, Spin: int64(a.Spin), ServerPort: int64(a.ServerPort), ClientPort: int64(a.ClientPort),
			NearSpaces: a.ClientNetns, FarSpaces: a.ServerNetns, NearPins: a.ClientPins, FarPins: a.ServerPins,
			Rate: a.Rate, BackgroundRate: a.BackgroundRate,
		}
		for _, dial := range a.Dial {
			b, err := dial.MarshalBinary()
			if err != nil {
				return nil, fmt.Errorf("arm %s: %w", a.Name, err)
			}
			arm.Dial = append(arm.Dial, b)
		}
		for _, ends := range a.Ends {
			pair, err := pairToPB(ends)
			if err != nil {
				return nil, fmt.Errorf("arm %s: %w", a.Name, err)
			}
			arm.Ends = append(arm.Ends, pair)
		}
		out.Arms = append(out.Arms, arm)
	}
	for _, round := range p.Schedule {
		out.Schedule = append(out.Schedule, &agentpb.Round{Arms: convert(round, toInt64)})
	}
	return out, nil
}

func planFromPB(p *agentpb.Plan) (load.Plan, error) {
	out := load.Plan{
		Token: p.GetToken(), Load: p.GetLoad(), Size: int(p.GetSize()), Flows: int(p.GetFlows()), Batch: int(p.GetBatch()),
		Slice: time.Duration(p.GetSlice()), Head: time.Duration(p.GetHead()),
		ClientCPU: int(p.GetClientCpu()), ServerCPU: int(p.GetServerCpu()),
		Congestion: p.GetCongestion(), Rate: p.GetRate(), Response: int(p.GetResponse()),
		Threads: int(p.GetThreads()), ClientCPUs: convert(p.GetClientCpus(), toInt), ServerCPUs: convert(p.GetServerCpus(), toInt),
	}
	if n := copy(out.Nonce[:], p.GetNonce()); n != len(out.Nonce) || n != len(p.GetNonce()) {
		return load.Plan{}, fmt.Errorf("the nonce has %d bytes, not %d", len(p.GetNonce()), len(out.Nonce))
	}
	if b := p.GetBeside(); b != nil {
		out.Background = &load.Background{Load: b.GetLoad(), Size: int(b.GetSize()), Flows: int(b.GetFlows()), Rate: b.GetRate(),
			ClientCPU: int(b.GetClientCpu()), ServerCPU: int(b.GetServerCpu())}
	}
	for _, a := range p.GetArms() {
		arm := load.Arm{
			Name: a.GetName(), Spin: time.Duration(a.GetSpin()),
			ServerPort: int(a.GetServerPort()), ClientPort: int(a.GetClientPort()),
			ClientNetns: a.GetNearSpaces(), ServerNetns: a.GetFarSpaces(), ClientPins: a.GetNearPins(), ServerPins: a.GetFarPins(),
			Rate: a.GetRate(), BackgroundRate: a.GetBackgroundRate(),
		}
		for _, b := range a.GetDial() {
			var dial netip.AddrPort
			if err := dial.UnmarshalBinary(b); err != nil {
				return load.Plan{}, fmt.Errorf("arm %s: %w", a.GetName(), err)
			}
			arm.Dial = append(arm.Dial, dial)
		}
		for _, ends := range a.GetEnds() {
			pair, err := pairFromPB(ends)
			if err != nil {
				return load.Plan{}, fmt.Errorf("arm %s: %w", a.GetName(), err)
			}
			arm.Ends = append(arm.Ends, pair)
		}
		out.Arms = append(out.Arms, arm)
	}
	for _, r := range p.GetSchedule() {
		round := make([]int, len(r.GetArms()))
		for i, arm := range r.GetArms() {
			if arm < 0 || arm >= int64(len(out.Arms)) {
				return load.Plan{}, fmt.Errorf("schedule names arm %d of %d", arm, len(out.Arms))
			}
			round[i] = int(arm)
		}
		out.Schedule = append(out.Schedule, round)
	}
	return out, nil
}

func pairToPB(p load.Pair) (*agentpb.Pair, error) {
	from, err := endpointToPB(p.From)
	if err != nil {
		return nil, fmt.Errorf("client end: %w", err)
	}
	to, err := endpointToPB(p.To)
	if err != nil {
		return nil, fmt.Errorf("server end: %w", err)
	}
	return &agentpb.Pair{From: from, To: to}, nil
}

func pairFromPB(p *agentpb.Pair) (load.Pair, error) {
	from, err := endpointFromPB(p.GetFrom())
	if err != nil {
		return load.Pair{}, fmt.Errorf("client end: %w", err)
	}
	to, err := endpointFromPB(p.GetTo())
	if err != nil {
		return load.Pair{}, fmt.Errorf("server end: %w", err)
	}
	return load.Pair{From: from, To: to}, nil
}

func endpointToPB(e host.Endpoint) (*agentpb.Endpoint, error) {
	addr, err := e.Addr.MarshalBinary() // keeps the zone
	if err != nil {
		return nil, fmt.Errorf("encode address %v: %w", e.Addr, err)
	}
	return &agentpb.Endpoint{Machine: e.Machine, Namespace: e.Namespace, Device: e.Device, Addr: addr, Mtu: int64(e.MTU), Agent: e.Agent}, nil
}

func endpointFromPB(e *agentpb.Endpoint) (host.Endpoint, error) {
	out := host.Endpoint{Machine: e.GetMachine(), Namespace: e.GetNamespace(), Device: e.GetDevice(), MTU: int(e.GetMtu()), Agent: e.GetAgent()}
	var addr netip.Addr
	if err := addr.UnmarshalBinary(e.GetAddr()); err != nil {
		return out, fmt.Errorf("decode address: %w", err)
	}
	out.Addr = addr
	return out, nil
}

func spaceToPB(s host.Named) *agentpb.Space { return &agentpb.Space{Name: s.Name, Path: s.Path} }

func sliceToPB(s load.SliceResult) *agentpb.Slice {
	out := &agentpb.Slice{
		Arm: int64(s.Arm), Round: int64(s.Round), Start: s.Start.UnixNano(), Elapsed: int64(s.Elapsed),
		Failure: failureToPB(s.Err),
	}
	if l := s.Latency; l != nil {
		out.Latency = &agentpb.Latency{
			Requests: l.Requests, Replies: l.Replies, Lost: l.Lost, Late: l.Late,
			RttSum: l.RTTSum, HeadReplies: l.HeadReplies, RttMedian: l.RTTMedian, Timeout: l.Timeout, Rtt: l.RTT,
			Missed: l.Missed, Lateness: l.Lateness, PerFlow: l.PerFlow,
		}
	}
	out.Stream, out.Beside = streamToPB(s.Stream), streamToPB(s.Background)
	return out
}

func sliceFromPB(s *agentpb.Slice) load.SliceResult {
	out := load.SliceResult{
		Arm: int(s.GetArm()), Round: int(s.GetRound()), Start: time.Unix(0, s.GetStart()),
		Elapsed: time.Duration(s.GetElapsed()), Err: failureFromPB(s.GetFailure()),
	}
	if l := s.GetLatency(); l != nil {
		out.Latency = &result.Latency{
			Requests: l.GetRequests(), Replies: l.GetReplies(), Lost: l.GetLost(), Late: l.GetLate(),
			RTTSum: l.GetRttSum(), HeadReplies: l.GetHeadReplies(), RTTMedian: l.GetRttMedian(), Timeout: l.GetTimeout(), RTT: l.GetRtt(),
			Missed: l.GetMissed(), Lateness: l.GetLateness(), PerFlow: l.GetPerFlow(),
		}
	}
	out.Stream, out.Background = streamFromPB(s.GetStream()), streamFromPB(s.GetBeside())
	return out
}

func streamToPB(t *result.Stream) *agentpb.Stream {
	if t == nil {
		return nil
	}
	return &agentpb.Stream{
		SentMessages: t.SentMessages, SentBytes: t.SentBytes, SendNs: t.SendNs,
		RecvMessages: t.RecvMessages, RecvBytes: t.RecvBytes,
		RateMessages: t.RateMessages, RateBytes: t.RateBytes, RateNs: t.RateNs,
		Packets: t.Packets, Retransmits: t.Retransmits, AskedMessages: t.AskedMessages, PerFlow: t.PerFlow,
	}
}

func streamFromPB(t *agentpb.Stream) *result.Stream {
	if t == nil {
		return nil
	}
	return &result.Stream{
		SentMessages: t.GetSentMessages(), SentBytes: t.GetSentBytes(), SendNs: t.GetSendNs(),
		RecvMessages: t.GetRecvMessages(), RecvBytes: t.GetRecvBytes(),
		RateMessages: t.GetRateMessages(), RateBytes: t.GetRateBytes(), RateNs: t.GetRateNs(),
		Packets: t.GetPackets(), Retransmits: t.GetRetransmits(), AskedMessages: t.GetAskedMessages(), PerFlow: t.GetPerFlow(),
	}
}

func meterToPB(m result.Meter) *agentpb.Meter {
	return &agentpb.Meter{
		Cell: m.Cell, Arm: m.Arm, Series: int64(m.Series), Machine: m.Machine, Name: m.Name,
		WallNs: m.WallNs, Values: m.Values, Resolution: m.Resolution,
	}
}

func meterFromPB(m *agentpb.Meter) result.Meter {
	return result.Meter{
		Cell: m.GetCell(), Arm: m.GetArm(), Series: int(m.GetSeries()), Machine: m.GetMachine(), Name: m.GetName(),
		WallNs: m.GetWallNs(), Values: m.GetValues(), Resolution: m.GetResolution(),
	}
}

// convert maps a slice; nil stays nil.
func convert[A, B any](in []A, f func(A) B) []B {
	if in == nil {
		return nil
	}
	out := make([]B, len(in))
	for i, a := range in {
		out[i] = f(a)
	}
	return out
}

func toInt64(n int) int64 { return int64(n) }
func toInt(n int64) int   { return int(n) }

// failureToPB keeps the three parts of a [verr.Error], else the text.
func failureToPB(err error) *agentpb.Failure {
	if err == nil {
		return nil
	}
	var e *verr.Error
	if errors.As(err, &e) {
		return &agentpb.Failure{Text: err.Error(), What: e.Summary, Why: e.Reason, Do: e.Hint, Code: int64(e.Code)}
	}
	return &agentpb.Failure{Text: err.Error()}
}

func failureFromPB(f *agentpb.Failure) error {
	if f == nil {
		return nil
	}
	if f.GetWhat() != "" {
		return verr.New(int(f.GetCode()), f.GetWhat(), f.GetWhy(), f.GetDo())
	}
	return errors.New(f.GetText())
}
