package meter

import (
	"path/filepath"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
)

// pinnedTables makes the tables of a fast path that a meter reads, pinned in a folder.
func pinnedTables(t testing.TB) (pins string, counts, flows *ebpf.Map) {
	t.Helper()
	Root(t)
	below := t.TempDir()
	pins = filepath.Join(below, "bpf")
	must(t, kernel.MountPins(pins))
	t.Cleanup(func() { must(t, kernel.UnmountPins(below)) })
	pin := func(name string, spec ebpf.MapSpec) *ebpf.Map {
		m, err := ebpf.NewMap(&spec)
		must(t, err)
		t.Cleanup(func() { m.Close() })
		must(t, m.Pin(bpf.TableFile(pins, name)))
		return m
	}
	counts = pin("counts", ebpf.MapSpec{Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 16, MaxEntries: uint32(bpf.Counts)})
	flows = pin("flows", ebpf.MapSpec{Type: ebpf.Hash, KeySize: 16, ValueSize: 44, MaxEntries: 1000, Flags: 1}) // memory follows entries
	return pins, counts, flows
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestFastPathIsMetered: counts are those of its own slices, flows the most that
// there were, and an arm without a fast path has no line.
func TestFastPathIsMetered(t *testing.T) {
	pins, counts, flows := pinnedTables(t)
	cores, err := ebpf.PossibleCPU()
	must(t, err)
	seen := uint64(0)
	see := func(n uint64) { // so many packets more on each core, and of each kind as many more as it has a number
		seen += n
		for c := range bpf.Counts {
			each := make([]bpf.Counter, cores)
			for i := range each {
				each[i] = bpf.Counter{Packets: seen * uint64(c+1), Bytes: 1 << 40}
			}
			must(t, counts.Put(uint32(c), each))
		}
	}
	const most = 700
	for i := range most {
		must(t, flows.Put([16]byte{byte(i), byte(i >> 8)}, make([]byte, 44)))
	}
	see(100)
	r, err := NewRecorder("m1", []string{"accel"}, Setup{Arms: []Arm{{Name: "host"}, {Name: "fast", Pins: pins}, {Name: "gone", Pins: pins + "x"}}})
	must(t, err)
	for arm := range 3 {
		r.Begin(arm)
		if arm == 1 {
			see(7)
		}
		r.End(arm)
		see(1000) // what happens between slices is another arm's
	}
	for i := range most - 1 {
		must(t, flows.Delete([16]byte{byte(i), byte(i >> 8)}))
	}
	r.Begin(1)
	r.End(1)
	lines := r.Meters()
	if len(lines) != 1 || lines[0].Arm != "fast" || lines[0].Values == nil {
		t.Fatalf("%+v, want one line", lines)
	}
	for c := range bpf.Counts {
		if got, want := lines[0].Values["accel/"+c.Key()], int64(cores)*7*int64(c+1); got != want {
			t.Errorf("%s: %d, want %d", c.Key(), got, want)
		}
	}
	if got := lines[0].Values[flowsKey]; got != most {
		t.Errorf("%d flows at most, want %d", got, most)
	}
	must(t, r.Close())
}

// BenchmarkSampleFastPath is what it costs at each end of a slice.
func BenchmarkSampleFastPath(b *testing.B) {
	pins, _, _ := pinnedTables(b)
	s, err := openFastPath(Setup{Arms: []Arm{{Pins: pins}}})
	must(b, err)
	defer s.Close()
	dst := make([]int64, len(s.Keys()))
	b.ReportAllocs()
	for b.Loop() {
		must(b, s.Sample(0, dst))
	}
}
