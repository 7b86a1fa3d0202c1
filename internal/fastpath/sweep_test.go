package fastpath_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/ti-mo/conntrack"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
)

const (
	nowTick = 1000 // tick
	tcp     = 6
	udp     = 17
)

func TestLimit(t *testing.T) {
	const most = 1 << 20
	for entries, want := range map[int]int32{0: fastpath.IdleTicks, most / 2: fastpath.IdleTicks, most * 3 / 4: (fastpath.IdleTicks + fastpath.MinIdleTicks) / 2, most: fastpath.MinIdleTicks, 2 * most: fastpath.MinIdleTicks} {
		if got := fastpath.IdleLimit(entries, most); got != want {
			t.Errorf("with %d of %d entries, silent ones are kept for %d ticks, want %d", entries, most, got, want)
		}
	}
}

// However far apart its looks are, a connection that is carried all the time is kept
// alive at the first of them that comes soon after it began, and then once for each of
// the moments that has come, or for all that have.
func TestDue(t *testing.T) {
	for _, every := range []int32{1, 2, 7, 30, 75, 108_000} {
		for _, spacings := range [][]int32{{1}, {5}, {7}, {13}, {40}, {1000}, {5, 23, 1, 90}} {
			for offset := range spacings[0] {
				kept, last, before := 0, int32(0), int32(0)
				for i, age := 0, offset; age < 5*min(every, 10_000)+20; i++ {
					due := fastpath.Due(0, age, before, every, false)
					if want := age >= fastpath.FirstRefresh && (before < fastpath.FirstRefresh || age/every > before/every); due != want {
						t.Fatalf("every %d: looked at with %d and %d, it is due: %v", every, before, age, due)
					}
					if due {
						kept, last = kept+1, age
					}
					if age >= fastpath.FirstRefresh && age-last >= every {
						t.Fatalf("every %d: at %d, it was kept alive last at %d", every, age, last)
					}
					before, age = age, age+spacings[i%len(spacings)]
				}
				if most := int(before/every) + 1; kept > most {
					t.Errorf("every %d, looks at each %v: kept alive %d times by %d, want %d at most", every, spacings, kept, before, most)
				}
			}
		}
	}
	for _, c := range []struct {
		quiet, age, before int32
		last, due          bool
	}{
		{0, 40, 25, false, true},
		{10, 40, 25, false, true},  // sent at 30
		{37, 40, 25, false, true},  // sent at 3, in the tick in which it was kept alive
		{38, 40, 25, false, false}, // sent at 2, and was kept alive since
		{36, 65, 55, false, false}, // sent at 29, and was kept alive since
		{0, 55, 50, false, false},  // no moment has come
		{11, 55, 50, true, true},   // nor will it come any more
		{26, 55, 50, true, false},  // sent at 29
	} {
		if got := fastpath.Due(c.quiet, c.age, c.before, 30, c.last); got != c.due {
			t.Errorf("%+v: it is due: %v", c, got)
		}
	}
}

// As long as a flow is carried, its connection lives, though packets that go slow
// have conntrack give it five minutes only; and when it is forgotten because it is
// silent, its connection lives as long as if conntrack had seen all of it.
func TestKeptAlive(t *testing.T) {
	const silent, least, began = 432_000, 300, 1000
	for _, sweepLength := range []uint32{5, 7, 13, 40, 100} {
		for _, limit := range []int32{fastpath.IdleTicks, fastpath.MinIdleTicks} {
			for sends := uint32(1); sends < 500; sends += 3 { // ticks
				for _, slow := range []uint32{0, sends / 2, sends} { // the last that is slow
					name := fmt.Sprintf("looks each %d ticks, limit %d, sends for %d, slow until %d", sweepLength, limit, sends, slow)
					s := fastpath.NewSweep(nil, nil)
					v := bpf.Flow{Epoch: 1, CtEntry: 1, Requested: began, Used: began}
					ends, kept, gone := uint32(began+least), 0, false
					for tick := uint32(began); !gone; tick++ {
						if tick > ends {
							t.Fatalf("%s: its connection has ended at %d", name, ends-began)
						}
						if at := tick - sends%sweepLength; tick%sweepLength == 0 { // the sweep comes to it late
							var alive uint32
							if alive, gone = s.Inspect(at, tick, v, limit, silent, least); alive > 0 {
								ends, kept = tick+alive, kept+1
							}
						}
						if tick <= began+sends {
							v.Used = tick
						}
						if tick <= began+slow {
							ends = tick + least
						}
					}
					if ends != began+sends+silent {
						t.Fatalf("%s: its connection lives %d ticks longer", name, ends-began-sends)
					}
					if most := int(sends)/75 + 3; kept > most {
						t.Fatalf("%s: it was kept alive %d times, want %d at most", name, kept, most)
					}
				}
			}
		}
	}
}

// A flow that sends now and then is gone before its next packet, or its connection lives on until
// the next refresh: otherwise conntrack would forget it, and a Service choose another endpoint.
func TestKeptAliveBetweenPackets(t *testing.T) {
	const began = 1000                                                                                       // tick
	for _, stream := range []uint32{topology.LeastTimeout, topology.LeastTimeout + 1, 22, 23, 30, 33, 120} { // seconds
		for _, sweeps := range []uint32{fastpath.SweepEvery, fastpath.SweepEvery + 1, fastpath.SweepEvery + 2} {
			for gap := uint32(1); gap < stream+30; gap++ {
				for first := uint32(1); first < 10; first++ {
					s := fastpath.NewSweep(nil, nil)
					v := bpf.Flow{Epoch: 1, CtEntry: 1, Requested: began, Used: began}
					ends, packet, gone := uint32(began+stream), began+first, false
					for tick := uint32(began); tick < began+10*stream && !gone; tick++ {
						if tick >= ends {
							t.Fatalf("timeout %d, sweeps each %d, a packet each %d ticks, the first after %d: the connection ends after %d, while it is carried", stream, sweeps, gap, first, tick-began)
						}
						if tick%sweeps == 0 {
							var alive uint32
							if alive, gone = s.Inspect(tick, tick, v, fastpath.IdleTicks, stream, stream); alive > 0 {
								ends = tick + alive
							}
						}
						if tick == packet {
							v.Used, packet = tick, tick+gap
						}
					}
					if gap <= stream/2 && stream == 120 && gone {
						t.Fatalf("timeout %d, a packet each %d ticks: it is forgotten", stream, gap)
					}
				}
			}
		}
	}
}

// How long connections live is read of all the settings of which a packet may make
// the kernel choose one.
func TestLifetimes(t *testing.T) {
	n := space(t)
	for _, c := range []struct{ established, unacknowledged, retrans, least string }{
		{"3600", "300", "200", "200"}, {"3600", "200", "300", "200"}, {"200", "300", "300", "200"},
	} {
		for name, value := range map[string]string{"established": c.established, "unacknowledged": c.unacknowledged, "max_retrans": c.retrans} {
			must(t, n.Sysctl(netcfg.Sysctl{Name: "net.netfilter.nf_conntrack_tcp_timeout_" + name, Value: value}))
		}
		testenv.InNetns(t, n.Path(), func() error {
			silent, least, err := fastpath.ReadTimeouts(tcp)
			if fmt.Sprint(silent, least) != c.established+" "+c.least {
				t.Errorf("%+v: silent ones live for %d s, others for %d at least", c, silent, least)
			}
			return err
		})
	}
}

// space is a namespace with a loopback device.
func space(t *testing.T) *netcfg.Namespace {
	t.Helper()
	w, err := netcfg.Owned(testenv.Claim(t))
	must(t, err)
	n, err := w.Create(w.Name("space"))
	must(t, err)
	t.Cleanup(n.Close)
	must(t, n.Up("lo"))
	return n
}

func newFast(t *testing.T) *bpf.Objects {
	t.Helper()
	testenv.Root(t)
	f, err := bpf.New(bpf.Routed, bpf.Options{}, 0)
	must(t, err)
	t.Cleanup(f.Close)
	return f
}

// synthetic are keys of flows that do not exist.
func synthetic(n int) []bpf.FlowKey {
	keys := make([]bpf.FlowKey, n)
	for i := range keys {
		keys[i] = bpf.NewFlowKey(0, udp, netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 9, byte(i >> 24), byte(i >> 16)}), uint16(i)),
			netip.MustParseAddrPort("10.8.0.1:53"))
	}
	return keys
}

func fill(t *testing.T, flows *ebpf.Map, keys []bpf.FlowKey, all bpf.Flow) {
	t.Helper()
	values := make([]bpf.Flow, len(keys))
	for i := range values {
		values[i] = all
	}
	_, err := flows.BatchUpdate(keys, values, nil)
	must(t, err)
}

func newSweep(t *testing.T, fast *bpf.Objects, n *netcfg.Namespace) (*fastpath.Sweep, *kernel.Conntrack) {
	t.Helper()
	track, err := kernel.OpenConntrack(n)
	must(t, err)
	t.Cleanup(func() { must(t, track.Close()) })
	return fastpath.NewSweep(fast, track), track
}

// sweepAll goes through all flows.
func sweepAll(t *testing.T, s *fastpath.Sweep, flush bool, silent map[uint8]uint32) (turns, seen int) {
	t.Helper()
	turns, seen, err := s.Run(nowTick, flush, silent)
	must(t, err)
	return turns, seen
}

func hasFlow(t *testing.T, flows *ebpf.Map, k bpf.FlowKey) bool {
	t.Helper()
	var v bpf.Flow
	err := flows.Lookup(k, &v)
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		t.Fatal(err)
	}
	return err == nil
}

// Which flows a sweep forgets.
func TestSweepForgets(t *testing.T) {
	fast := newFast(t)
	s, _ := newSweep(t, fast, space(t))
	cases := []struct {
		name   string
		flow   bpf.Flow
		forgot bool
	}{
		{"just carried", bpf.Flow{Epoch: 1, Used: nowTick}, false},
		{"carried while it is looked at", bpf.Flow{Epoch: 1, Used: nowTick + 1}, false},
		{"silent for a while", bpf.Flow{Epoch: 1, Used: nowTick - fastpath.IdleTicks}, false},
		{"silent for long", bpf.Flow{Epoch: 1, Used: nowTick - fastpath.IdleTicks - 1}, true},
		{"never carried, just seen", bpf.Flow{Used: nowTick - fastpath.UnlearnedTicks}, false},
		{"never carried", bpf.Flow{Used: nowTick - fastpath.UnlearnedTicks - 1}, true},
	}
	keys := synthetic(len(cases))
	for _, flush := range []bool{false, true} {
		for i, c := range cases {
			must(t, fast.Flows.Put(keys[i], c.flow))
		}
		sweepAll(t, s, flush, nil)
		for i, c := range cases {
			if forgot := !hasFlow(t, fast.Flows, keys[i]); forgot != (c.forgot || flush) {
				t.Errorf("%s (flush: %v): forgotten: %v", c.name, flush, forgot)
			}
		}
	}
	fill(t, fast.Flows, synthetic(3*fastpath.SweepBatch), bpf.Flow{Epoch: 1, Used: nowTick - fastpath.IdleTicks - 1})
	if turns, _ := sweepAll(t, s, false, nil); turns < 3 {
		t.Errorf("%d flows took %d turns", 3*fastpath.SweepBatch, turns)
	}
	if _, seen := sweepAll(t, s, false, nil); seen != 0 {
		t.Errorf("%d are left", seen)
	}
	must(t, s.Forget(synthetic(3))) // nothing is there, and that is no error
}

// A tracked flow's connection lives on while it is carried; where conntrack has
// forgotten it, so does the sweep.
func TestSweepKeepsAlive(t *testing.T) {
	fast := newFast(t)
	n := space(t)
	testenv.Track(t, n.Path())
	ends, err := kernel.OpenDestroyEvents(n)
	must(t, err)
	defer ends.Close()
	var from, to netip.AddrPort
	testenv.InNetns(t, n.Path(), func() error {
		a, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
		if err != nil {
			return err
		}
		b, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
		if err != nil {
			return err
		}
		from, to = a.LocalAddr().(*net.UDPAddr).AddrPort(), b.LocalAddr().(*net.UDPAddr).AddrPort()
		_, err = a.WriteToUDPAddrPort([]byte("there"), to)
		_, err2 := b.WriteToUDPAddrPort([]byte("back"), from)
		return errors.Join(err, err2, a.Close(), b.Close())
	})
	lives := func() (seconds uint32) {
		testenv.InNetns(t, n.Path(), func() error {
			c, err := conntrack.Dial(nil)
			if err != nil {
				return err
			}
			f, err := c.Get(conntrack.NewFlow(udp, 0, from.Addr(), to.Addr(), from.Port(), to.Port(), 0, 0))
			seconds = f.Timeout
			if seconds > 50 && !f.Status.Assured() {
				t.Error("it is not assured")
			}
			return errors.Join(err, c.Close())
		})
		return seconds
	}
	s, _ := newSweep(t, fast, n)
	lifetime := map[uint8]uint32{udp: 3600}
	key, gone := bpf.NewFlowKey(0, udp, to, from), synthetic(1)[0]
	flow := bpf.Flow{Epoch: 1, CtEntry: 1, Requested: nowTick - 60, Used: nowTick - 50}
	must(t, fast.Flows.Put(gone, flow))
	flow.CtEntry = 0
	must(t, fast.Flows.Put(key, flow))
	sweepAll(t, s, false, lifetime)
	if l := lives(); l > 50 {
		t.Errorf("what is not pinned is kept alive, for %d s", l)
	}
	if hasFlow(t, fast.Flows, gone) {
		t.Error("a flow that conntrack does not know stays")
	}
	flow.CtEntry = 1
	must(t, fast.Flows.Put(key, flow))
	sweepAll(t, s, false, lifetime)
	if l := lives(); l < 3400 || l > 3550 {
		t.Errorf("it lives for %d s, want 3600 but for the 50 in which it was silent", l)
	}
	if !hasFlow(t, fast.Flows, key) {
		t.Error("it is forgotten")
	}
}
