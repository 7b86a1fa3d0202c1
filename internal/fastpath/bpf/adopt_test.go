package bpf_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/testenv"
)

// What is counted, and the numbers that end what was learned, are taken over from a
// fast path before; what it had learned is not. Of one that is not whole, or has
// other tables, nothing is left, what is attached neither.
func TestAdopt(t *testing.T) {
	testenv.Root(t)
	for _, c := range []struct {
		name    string
		spoil   func(pins string) error
		adopted bool
	}{
		{"whole", func(string) error { return nil }, true},
		{"of another layout", func(pins string) error {
			link := filepath.Join(pins, "layout")
			if err := os.Remove(link); err != nil {
				return err
			}
			return os.Symlink("another", link)
		}, false},
		{"of no known layout", func(pins string) error { return os.Remove(filepath.Join(pins, "layout")) }, false},
		{"without its numbers", func(pins string) error { return os.Remove(bpf.TableFile(pins, ".data")) }, false},
		{"without what it counted", func(pins string) error { return os.Remove(bpf.TableFile(pins, "counts")) }, false},
		{"with a table of another size", func(pins string) error {
			file := bpf.TableFile(pins, "counts")
			if err := os.Remove(file); err != nil {
				return err
			}
			other, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 16, MaxEntries: 3})
			if err != nil {
				return err
			}
			defer other.Close()
			return other.Pin(file)
		}, false},
		{"without its flows", func(pins string) error { return os.Remove(bpf.TableFile(pins, "flows")) }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			pins := filepath.Join(t.TempDir(), "pins")
			must(kernel.MountPins(pins))
			t.Cleanup(func() { must(kernel.UnmountPins(filepath.Dir(pins))) })
			first, err := bpf.New(bpf.VXLAN, bpf.Options{Pins: pins, Detach: os.Remove}, port)
			must(err)
			defer first.Close()
			must(first.Epoch.Set(uint32(7)))
			must(first.Flows.Put(bpf.FlowKey{Local: 1}, bpf.Flow{CtEntry: 1}))
			must(first.FromPod.Pin(filepath.Join(pins, "from_pod_1")))
			must(bpf.CheckLayout(pins, bpf.VXLAN))
			if err := bpf.CheckLayout(pins, bpf.Routed6); !errors.Is(err, bpf.ErrOtherVersion) {
				t.Errorf("the layout of another kind: %v", err)
			}
			must(c.spoil(pins))

			next, err := bpf.New(bpf.VXLAN, bpf.Options{Pins: pins, Detach: os.Remove}, port)
			must(err)
			defer next.Close()
			var epoch uint32
			must(next.Epoch.Get(&epoch))
			if got := epoch == 7; got != c.adopted {
				t.Errorf("numbers taken over: %v, want %v", got, c.adopted)
			}
			attached, err := bpf.Attached(pins)
			must(err)
			if got := len(attached) == 1; got != c.adopted {
				t.Errorf("attached is %v", attached)
			}
			var flow bpf.Flow
			if next.Flows.Lookup(bpf.FlowKey{Local: 1}, &flow) == nil {
				t.Error("a flow is known that another fast path has learned")
			}
			// Whoever comes third takes over from the second.
			must(next.Epoch.Set(uint32(9)))
			third, err := bpf.New(bpf.VXLAN, bpf.Options{Pins: pins, Detach: os.Remove}, port)
			must(err)
			defer third.Close()
			must(third.Epoch.Get(&epoch))
			if epoch != 9 {
				t.Errorf("the third has epoch %d, want that of the second", epoch)
			}
			must(bpf.Remove(pins, os.Remove))
			left, err := filepath.Glob(filepath.Join(pins, "*_*"))
			if err != nil || len(left) > 0 {
				t.Errorf("left in the folder: %v, %v", left, err)
			}
		})
	}
}
