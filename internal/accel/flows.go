package accel

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"

	"github.com/venturi-net/venturi/internal/bpf"
	"github.com/venturi-net/venturi/internal/change"
)

// flows keeps the flows' entries and conntrack's in step: conntrack sees next to
// nothing of a flow that is carried, and must neither forget it nor take what it
// sees for an intruder's.
type flows struct {
	fast  *bpf.Fast
	track *change.Conntrack
}

const (
	// idle is for how long an entry of a flow that sends nothing is kept.
	idle = 120 // ticks
	// sweepEvery is how often entries are looked through.
	sweepEvery = 10 // ticks
	protoTCP   = 6
	protoUDP   = 17
)

// pinned hands on what programs ask to pin, until the ring is closed.
func (f *flows) asked(ctx context.Context, ring *ringbuf.Reader, pins chan<- bpf.Pin) {
	var record ringbuf.Record
	for ring.ReadInto(&record) == nil {
		var p bpf.Pin
		if _, err := binary.Decode(record.RawSample, binary.NativeEndian, &p); err != nil {
			continue // not one of ours
		}
		select {
		case pins <- p:
		case <-ctx.Done():
			return
		}
	}
}

// pin makes conntrack's entry fit for a flow, and notes that in the flow's own. What
// conntrack does not have established stays slow.
func (f *flows) pin(p bpf.Pin) error {
	var flow bpf.Flow
	if err := f.fast.Flows.Lookup(p.Key, &flow); err != nil {
		return absent(err)
	}
	if flow.Pinned == p.Track {
		return nil // it was asked twice
	}
	if err := f.track.Pin(connection(p.Key)); err != nil {
		return nil // it goes slow, and asks again
	}
	flow.Pinned = p.Track
	return absent(f.fast.Flows.Update(p.Key, flow, ebpf.UpdateExist))
}

// ended forgets the flow of a connection that conntrack has forgotten.
func (f *flows) ended(c change.Connection, tenants []uint32) error {
	for _, tenant := range tenants {
		for _, k := range []bpf.FlowKey{bpf.NewFlowKey(tenant, c.Protocol, c.A, c.B), bpf.NewFlowKey(tenant, c.Protocol, c.B, c.A)} {
			if err := absent(f.fast.Flows.Delete(k)); err != nil {
				return fmt.Errorf("forget a flow: %w", err)
			}
		}
	}
	return nil
}

// sweep forgets flows that have sent nothing for long, and keeps alive in conntrack
// those that were carried since the last time.
func (f *flows) sweep(tick uint32) error {
	var k bpf.FlowKey
	var v bpf.Flow
	var old []bpf.FlowKey
	udp, err := lifetime("nf_conntrack_udp_timeout_stream")
	if err != nil {
		return err
	}
	tcp, err := lifetime("nf_conntrack_tcp_timeout_established")
	if err != nil {
		return err
	}
	entries := f.fast.Flows.Iterate()
	for entries.Next(&k, &v) {
		switch quiet := tick - v.Used; {
		case quiet > idle:
			old = append(old, k)
		case v.Pinned != 0 && quiet <= sweepEvery+1:
			// What it says is no news: if the entry is gone, its end is told, too.
			_ = f.track.Refresh(connection(k), map[uint32]time.Duration{protoTCP: tcp / 2, protoUDP: udp}[k.TenantProto&0xff])
		}
	}
	for _, k := range old {
		if err := absent(f.fast.Flows.Delete(k)); err != nil {
			return fmt.Errorf("forget a flow: %w", err)
		}
	}
	// Entries that come and go while they are gone through can make it start
	// anew; the next sweep sees the rest.
	if err := entries.Err(); err != nil && !errors.Is(err, ebpf.ErrIterationAborted) {
		return fmt.Errorf("go through flows: %w", err)
	}
	return nil
}

// lifetime is how long conntrack keeps a connection that is silent.
func lifetime(name string) (time.Duration, error) {
	text, err := os.ReadFile("/proc/sys/net/netfilter/" + name)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil // this kernel tracks nothing
	}
	if err != nil {
		return 0, err
	}
	seconds, err := strconv.Atoi(strings.TrimSpace(string(text)))
	return time.Duration(seconds) * time.Second, err
}

// connection is what conntrack calls a flow.
func connection(k bpf.FlowKey) change.Connection {
	return change.Connection{Protocol: uint8(k.TenantProto), A: end(k.Local, k.LocalPort), B: end(k.Remote, k.RemotePort)}
}

func end(addr uint32, port uint16) netip.AddrPort {
	var b [6]byte
	binary.NativeEndian.PutUint32(b[:], addr)
	binary.NativeEndian.PutUint16(b[4:], port)
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[:4])), binary.BigEndian.Uint16(b[4:]))
}
