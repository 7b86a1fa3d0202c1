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
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
)

// So many connections begin and end that no path could carry their packets, so they are
// made up: conntrack gets an entry for each, and the fast path's table gets the flow that
// it would have learned. When the conntrack entry ends, the daemon must notice and delete
// the flow.
const (
	turnoverEvery = 10 * time.Millisecond // flows come and go in groups
	turnoverLife  = time.Second           // for which each of them is there
	// turnoverAlive is for how long conntrack has one, if nobody ends it.
	turnoverAlive = time.Minute
)

// turnover makes flows begin and end at the rate, in the table of the machine that the
// watched flow comes from, until ctx ends. Then it ends the remaining ones, and expects
// the daemon to delete all. It returns how many there were.
func (c churnBench) turnover(ctx context.Context, l *lab.Lab, arm lab.Arm) (came int, err error) {
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
	t := flowTurnover{table: table, conns: played, tenant: tenant}
	stay := int(time.Duration(c.rate) * turnoverLife / time.Second) // flows that are there at once
	next := time.NewTicker(turnoverEvery)
	defer next.Stop()
	for began := time.Now(); ctx.Err() == nil; {
		due := int(time.Since(began).Seconds()*float64(c.rate)) - t.created
		if err := t.create(min(due, flowBatch)); err != nil {
			return t.created, err
		}
		if err := t.delete(t.created - stay); err != nil {
			return t.created, err
		}
		select {
		case <-ctx.Done():
		case <-next.C:
		}
	}
	if err := t.delete(t.created); err != nil {
		return t.created, err
	}
	return t.created, t.awaitEmpty()
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
		if host.Sleep(ctx, turnoverEvery) != nil {
			return 0, errors.New("the watched flow was never learned")
		}
	}
}

// flowTurnover are numbered flows. Those from deleted to created exist now.
type flowTurnover struct {
	table            *ebpf.Map
	conns            *kernel.FakeConns
	tenant           uint32
	created, deleted int
}

// connection is that of a flow: no two at a time are alike.
func (t *flowTurnover) connection(n int) kernel.Connection {
	at := func(second byte) netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{198, second, byte(n >> 16), byte(n >> 8)}), 1024+uint16(n&0xff))
	}
	return kernel.Connection{Protocol: ipUDP, A: at(18), B: at(19)}
}

func (t *flowTurnover) key(n int) bpf.FlowKey {
	c := t.connection(n)
	return bpf.NewFlowKey(t.tenant, c.Protocol, c.A, c.B)
}

func (t *flowTurnover) create(flows int) error {
	if flows <= 0 {
		return nil
	}
	keys, values := make([]bpf.FlowKey, flows), make([]bpf.Flow, flows)
	for i := range keys {
		keys[i], values[i] = t.key(t.created+i), bpf.Flow{Epoch: 1, Used: farTick, Requested: farTick}
	}
	if err := t.conns.Create(t.connections(t.created, t.created+flows), turnoverAlive); err != nil {
		return err
	}
	if _, err := t.table.BatchUpdate(keys, values, nil); err != nil {
		return fmt.Errorf("add flows: %w", err)
	}
	t.created += flows
	return nil
}

// delete ends the connections of all flows below a number.
func (t *flowTurnover) delete(before int) error {
	if before <= t.deleted {
		return nil
	}
	err := t.conns.Delete(t.connections(t.deleted, before))
	t.deleted = before
	return err
}

// connections are those of flows, by number.
func (t *flowTurnover) connections(from, to int) (all []kernel.Connection) {
	for n := from; n < to; n++ {
		all = append(all, t.connection(n))
	}
	return all
}

// awaitEmpty waits until the daemon has deleted the last of the flows, and checks that
// none is left.
func (t *flowTurnover) awaitEmpty() error {
	for end := time.Now().Add(trafficTimeout); ; time.Sleep(turnoverEvery) {
		left := 0
		var k bpf.FlowKey
		var v bpf.Flow
		all := t.table.Iterate()
		for all.Next(&k, &v) {
			if v.Used == farTick {
				left++
			}
		}
		if err := all.Err(); err != nil || left == 0 {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("%v after their connections ended, the fast path still has %d of %d flows", trafficTimeout, left, t.created)
		}
	}
}
