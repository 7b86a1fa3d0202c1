package bench

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/cilium/ebpf"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/lab"
)

// Connections of which so many come and go that no path would have room for their
// packets are played: conntrack is told of each, the fast path's table gets the flow
// that it would have learned, and when conntrack is told that the connection ended,
// the daemon has to hear of it and forget the flow.
const (
	turnoverEvery = 10 * time.Millisecond // flows come and go in groups
	turnoverLife  = time.Second           // for which each of them is there
	// turnoverAlive is for how long conntrack has one, if nobody ends it.
	turnoverAlive = time.Minute
)

// turnover has flows come and go at the rate, in the table of the machine that the
// watched flow comes from, until ctx ends; then it ends those that are left, and wants
// all to be forgotten. It gives how many there were.
func (c churning) turnover(ctx context.Context, l *lab.Lab, arm lab.Arm) (came int, err error) {
	const machine = 0
	space, err := l.Open(machine)
	if err != nil {
		return 0, err
	}
	defer space.Close()
	table, err := ebpf.LoadPinnedMap(bpf.TableFile(arm.Pins[machine], "flows"), nil)
	if err != nil {
		return 0, fmt.Errorf("open the fast path's table: %w", err)
	}
	defer table.Close()
	played, err := kernel.OpenFakeConns(space)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, played.Close()) }()
	tenant, err := tenantOf(ctx, table)
	if err != nil {
		return 0, err
	}
	t := turning{table: table, played: played, tenant: tenant}
	stay := int(time.Duration(c.rate) * turnoverLife / time.Second) // flows that are there at once
	next := time.NewTicker(turnoverEvery)
	defer next.Stop()
	for began := time.Now(); ctx.Err() == nil; {
		due := int(time.Since(began).Seconds()*float64(c.rate)) - t.came
		if err := t.begin(min(due, atOnce)); err != nil {
			return t.came, err
		}
		if err := t.end(t.came - stay); err != nil {
			return t.came, err
		}
		select {
		case <-ctx.Done():
		case <-next.C:
		}
	}
	if err := t.end(t.came); err != nil {
		return t.came, err
	}
	return t.came, t.forgotten()
}

// tenantOf waits for the flow that is watched to be learned, and gives its tenant.
func tenantOf(ctx context.Context, table *ebpf.Map) (uint32, error) {
	for {
		var k bpf.FlowKey
		err := table.NextKey(nil, &k)
		if err == nil {
			return k.TenantProto >> 8, nil
		}
		if !errors.Is(err, ebpf.ErrKeyNotExist) {
			return 0, fmt.Errorf("read the fast path's table: %w", err)
		}
		select {
		case <-ctx.Done():
			return 0, errors.New("the watched flow was never learned")
		case <-time.After(turnoverEvery):
		}
	}
}

// turning are the flows, by number: those from gone on, to came, are there.
type turning struct {
	table      *ebpf.Map
	played     *kernel.FakeConns
	tenant     uint32
	came, gone int
}

// connection is that of a flow: no two at a time are alike.
func (t *turning) connection(n int) kernel.Connection {
	at := func(second byte) netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{198, second, byte(n >> 16), byte(n >> 8)}), 1024+uint16(n&0xff))
	}
	return kernel.Connection{Protocol: ipUDP, A: at(18), B: at(19)}
}

func (t *turning) key(n int) bpf.FlowKey {
	c := t.connection(n)
	return bpf.NewFlowKey(t.tenant, c.Protocol, c.A, c.B)
}

func (t *turning) begin(flows int) error {
	if flows <= 0 {
		return nil
	}
	keys, values := make([]bpf.FlowKey, flows), make([]bpf.Flow, flows)
	for i := range keys {
		keys[i], values[i] = t.key(t.came+i), bpf.Flow{Epoch: 1, Used: forlong, Requested: forlong}
	}
	if err := t.played.Create(t.connections(t.came, t.came+flows), turnoverAlive); err != nil {
		return err
	}
	if _, err := t.table.BatchUpdate(keys, values, nil); err != nil {
		return fmt.Errorf("add flows: %w", err)
	}
	t.came += flows
	return nil
}

// end ends those before a number.
func (t *turning) end(before int) error {
	if before <= t.gone {
		return nil
	}
	err := t.played.Delete(t.connections(t.gone, before))
	t.gone = before
	return err
}

// connections are those of flows, by number.
func (t *turning) connections(from, to int) (all []kernel.Connection) {
	for n := from; n < to; n++ {
		all = append(all, t.connection(n))
	}
	return all
}

// forgotten waits until the daemon has forgotten the last of them, and looks whether
// it has all.
func (t *turning) forgotten() error {
	for end := time.Now().Add(trafficPatience); ; time.Sleep(turnoverEvery) {
		left := 0
		var k bpf.FlowKey
		var v bpf.Flow
		all := t.table.Iterate()
		for all.Next(&k, &v) {
			if v.Used == forlong {
				left++
			}
		}
		if err := all.Err(); err != nil || left == 0 {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("%v after their connections ended, the fast path still has %d of %d flows", trafficPatience, left, t.came)
		}
	}
}
