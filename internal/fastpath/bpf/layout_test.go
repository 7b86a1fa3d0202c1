package bpf_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/testenv"
)

// A name that the programs do not share as a variable is an error that has it, and not what is first in the table.
func TestReadGlobalOfNoVariable(t *testing.T) {
	for _, shadow := range []bool{false, true} {
		pins := pinPrograms(t, shadow)
		for _, name := range []string{"epochs", "stamp_id"} { // there is none, and it is a constant
			if value, err := bpf.ReadGlobal(pins, bpf.VXLAN, name, 4); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("shadow %v: %s, which is no variable that they share, reads %v: %v", shadow, name, value, err)
			}
		}
	}
}

// Who reads a fast path again parses no object again, neither the programs' nor their shadow's: that takes tens of
// thousands of allocations.
func TestObjectsAreParsedOnce(t *testing.T) {
	const most = 1000 // to read takes some dozens
	for _, shadow := range []bool{false, true} {
		pins := pinPrograms(t, shadow)
		for name, read := range map[string]func() error{
			"the layout": func() error { return bpf.CheckLayout(pins, bpf.VXLAN) },
			"the epoch":  func() error { _, err := bpf.ReadEpoch(pins, bpf.VXLAN); return err },
			"the lease":  func() error { _, err := bpf.ReadExpired(pins, bpf.VXLAN); return err },
		} {
			if n := testing.AllocsPerRun(1, func() { check(t, read()) }); n > most {
				t.Errorf("shadow %v: to read %s again takes %v allocations, more than %d", shadow, name, n, most)
			}
		}
	}
}

// Who asks whether there is room for a pod or a peer is told what the tables have.
func TestRoomOfTables(t *testing.T) {
	for _, kind := range append(kinds, bpf.Routed6, bpf.VXLAN6) {
		for _, shadow := range []bool{false, true} {
			spec, err := bpf.Spec(kind, shadow)
			check(t, err)
			for table, want := range map[string]uint32{"pods": bpf.MaxPods, "pod_at": bpf.MaxPods, "peers": bpf.MaxPeers, "hops": bpf.MaxPeers} {
				if is := spec.Maps[table].MaxEntries; is != want {
					t.Errorf("%s, shadow %v: the table %s has %d entries, want %d", kind, shadow, table, is, want)
				}
			}
		}
	}
}

// pinPrograms loads programs, or their shadows, for as long as a test runs, and returns where they are pinned.
func pinPrograms(t *testing.T, shadow bool) (pins string) {
	t.Helper()
	testenv.Root(t)
	pins = filepath.Join(t.TempDir(), "pins")
	check(t, kernel.MountPins(pins))
	t.Cleanup(func() { check(t, kernel.UnmountPins(filepath.Dir(pins))) })
	f, err := bpf.New(bpf.VXLAN, bpf.Options{Pins: pins, Detach: os.Remove, Shadow: shadow}, port)
	check(t, err)
	t.Cleanup(f.Close)
	return pins
}
