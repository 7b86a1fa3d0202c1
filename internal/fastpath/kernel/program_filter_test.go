package kernel_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	tcx "github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
)

const device1 = 1 // the loopback device of any namespace

// programNamed is one of a fast path that leaves every packet to others.
func programNamed(t *testing.T, name string) *ebpf.Program {
	t.Helper()
	return programWith(t, name, kernel.FastPathTables)
}

// programWith is one that uses tables, and leaves every packet to others.
func programWith(t *testing.T, name string, tables map[string]ebpf.MapType) *ebpf.Program {
	t.Helper()
	var loads []asm.Instruction
	for table, kind := range tables {
		m, err := ebpf.NewMap(&ebpf.MapSpec{Name: table, Type: kind, KeySize: 4, ValueSize: 4, MaxEntries: 1})
		testenv.Must(t, err)
		defer m.Close()
		loads = append(loads, asm.LoadMapPtr(asm.R1, m.FD()))
	}
	return newProgram(t, name, loads...)
}

// newProgram is one that leaves every packet to others, after some instructions.
func newProgram(t *testing.T, name string, first ...asm.Instruction) *ebpf.Program {
	t.Helper()
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: name, Type: ebpf.SchedCLS, License: "GPL", Instructions: append(first, asm.Mov.Imm(asm.R0, -1), asm.Return()),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// pinFolder is one for programs, which goes with the test.
func pinFolder(t *testing.T) string {
	t.Helper()
	pins := filepath.Join(t.TempDir(), "pins")
	if err := kernel.MountPins(pins); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := kernel.UnmountPins(filepath.Dir(pins)); err != nil {
			t.Error(err)
		}
	})
	return pins
}

// attach attaches a program to the loopback device.
func attach(n *netcfg.Namespace, p *ebpf.Program, at kernel.AttachPoint, pin string) error {
	return kernel.AttachProgram(n, p, device1, at, pin)
}

// tc is what traffic control has at the loopback device of a namespace: its qdiscs, and
// the filters of both sides, by the names of their programs.
func tc(t *testing.T, n *netcfg.Namespace) (qdiscs, filters []string) {
	t.Helper()
	err := host.Do(n.Path(), func() error {
		device := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: device1}}
		all, err := netlink.QdiscList(device)
		for _, q := range all {
			qdiscs = append(qdiscs, q.Type())
		}
		for _, parent := range []uint32{netlink.HANDLE_MIN_INGRESS, netlink.HANDLE_MIN_EGRESS} {
			found, failed := netlink.FilterList(device, parent)
			err = errors.Join(err, failed)
			for _, f := range found {
				p, failed := ebpf.NewProgramFromID(ebpf.ProgramID(f.(*netlink.BpfFilter).Id))
				if failed != nil {
					return failed
				}
				info, failed := p.Info()
				err = errors.Join(err, failed, p.Close())
				filters = append(filters, info.Name)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return qdiscs, filters
}

// A program is attached as a tc filter, exchanged in its place, and taken away with all
// that it needed, however much of it was known to who attached it.
func TestFilter(t *testing.T) {
	testenv.Root(t)
	n, err := netcfg.NewAnonymous()
	testenv.Must(t, err)
	defer n.Close()
	pins := pinFolder(t)
	in, out := filepath.Join(pins, "in_1"), filepath.Join(pins, "out_1")
	want := func(when string, qdiscs, filters string) {
		t.Helper()
		q, f := tc(t, n)
		if got := strings.Join(f, " "); got != filters {
			t.Errorf("%s: filters are %q, want %q", when, got, filters)
		}
		if got := strings.Join(q, " "); got != qdiscs {
			t.Errorf("%s: qdiscs are %q, want %q", when, got, qdiscs)
		}
	}
	first, second := programNamed(t, "first"), programNamed(t, "second")
	before, _ := tc(t, n)
	bare := strings.Join(before, " ")
	clsact := strings.TrimSpace(bare + " clsact")

	testenv.Must(t, attach(n, first, kernel.FilterIngress, in))
	testenv.Must(t, attach(n, first, kernel.FilterEgress, out))
	want("attached", clsact, "first first")
	testenv.Must(t, attach(n, second, kernel.FilterIngress, in))
	want("exchanged", clsact, "second first")
	for at, want := range map[kernel.AttachPoint]bool{kernel.FilterIngress: true, kernel.FilterEgress: false} {
		if there, err := kernel.Attached(n, in, device1, at); err != nil || there != want {
			t.Errorf("attached to point %d: %v, %v; want %v", at, there, err, want)
		}
	}
	testenv.Must(t, kernel.DetachProgram(n, in))
	want("one is detached", clsact, "first")
	testenv.Must(t, kernel.DetachProgram(n, out))
	want("both are detached", clsact, "")
	testenv.Must(t, kernel.RemoveClsacts(n))
	want("for good", bare, "")

	// Somebody has taken the pins away: what they stood for is found, and exchanged.
	testenv.Must(t, attach(n, first, kernel.FilterIngress, in))
	testenv.Must(t, os.Remove(in))
	left, err := kernel.Filters(n, pins)
	if err != nil || len(left) != 1 || left[0] != in {
		t.Errorf("found without its pin: %v, %v", left, err)
	}
	testenv.Must(t, attach(n, second, kernel.FilterIngress, in))
	want("attached anew", clsact, "second")
	testenv.Must(t, os.Remove(in))
	testenv.Must(t, kernel.DetachProgram(n, in))
	testenv.Must(t, kernel.RemoveClsacts(n))
	want("detached without its pin", bare, "")

	// A clsact of somebody else stays, and so does one in which he has put a filter.
	testenv.Must(t, attach(n, first, kernel.FilterIngress, in))
	testenv.Must(t, host.Do(n.Path(), func() error { return withForeignFilter(second, netlink.FilterAdd) }))
	testenv.Must(t, kernel.DetachProgram(n, in))
	testenv.Must(t, kernel.RemoveClsacts(n))
	want("beside another filter", clsact, "second")
	testenv.Must(t, host.Do(n.Path(), func() error { return withForeignFilter(second, netlink.FilterDel) }))
	testenv.Must(t, attach(n, first, kernel.FilterIngress, in))
	testenv.Must(t, kernel.DetachProgram(n, in))
	testenv.Must(t, kernel.RemoveClsacts(n))
	want("in a clsact that was there", clsact, "")

	if err := kernel.AttachProgram(n, first, 4711, kernel.FilterIngress, in); !errors.Is(err, host.ErrGone) {
		t.Errorf("at no device: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(pins, "*_*")); err != nil || len(left) > 0 {
		t.Errorf("left in the folder: %v, %v", left, err)
	}
}

// A filter whose name is that of ours, and whose program is somebody else's, is left alone.
func TestFilterOfOurName(t *testing.T) {
	testenv.Root(t)
	n, err := netcfg.NewAnonymous()
	testenv.Must(t, err)
	defer n.Close()
	pins := pinFolder(t)
	pin := filepath.Join(pins, "from_pod_1")
	theirs, ours := newProgram(t, "from_pod"), programNamed(t, "from_pod")
	testenv.Must(t, attach(n, ours, kernel.FilterEgress, filepath.Join(pins, "to_pod_1"))) // for its clsact
	testenv.Must(t, host.Do(n.Path(), func() error {
		return netlink.FilterAdd(&netlink.BpfFilter{
			FilterAttrs: netlink.FilterAttrs{LinkIndex: device1, Parent: netlink.HANDLE_MIN_INGRESS, Protocol: 3, Priority: 7, Handle: 1},
			Fd:          theirs.FD(), Name: "venturi " + pin, DirectAction: true,
		})
	}))
	count := func(when string, want int) {
		t.Helper()
		if _, filters := tc(t, n); len(filters) != want {
			t.Errorf("%s there are filters %v, want %d", when, filters, want)
		}
	}
	if there, err := kernel.Attached(n, pin, device1, kernel.FilterIngress); there || err != nil {
		t.Errorf("theirs is taken for ours: %v, %v", there, err)
	}
	if found, err := kernel.Filters(n, pins); err != nil || len(found) != 1 {
		t.Errorf("ours are %v, %v", found, err)
	}
	testenv.Must(t, attach(n, ours, kernel.FilterIngress, pin))
	count("with ours beside theirs,", 3)
	testenv.Must(t, kernel.DetachProgram(n, pin))
	count("without it", 2)
	testenv.Must(t, kernel.DetachProgram(n, filepath.Join(pins, "to_pod_1")))
	testenv.Must(t, kernel.RemoveClsacts(n))
	count("after all", 1)
	if is, err := kernel.IsFastPath(programID(t, theirs)); is || err != nil {
		t.Errorf("theirs is a fast path's: %v, %v", is, err)
	}
	if is, err := kernel.IsFastPath(programID(t, ours)); !is || err != nil {
		t.Errorf("ours is a fast path's: %v, %v", is, err)
	}
	for _, tables := range []map[string]ebpf.MapType{
		{"flows": ebpf.Hash}, {"pods": ebpf.Array}, {"flows": ebpf.Array, "pods": ebpf.Array}, {"flows": ebpf.Hash, "pods": ebpf.Hash},
	} {
		if is, err := kernel.IsFastPath(programID(t, programWith(t, "from_pod", tables))); is || err != nil {
			t.Errorf("one with the tables %v is a fast path's: %v, %v", tables, is, err)
		}
	}
}

func programID(t *testing.T, p *ebpf.Program) ebpf.ProgramID {
	t.Helper()
	info, err := p.Info()
	testenv.Must(t, err)
	id, _ := info.ID()
	return id
}

// What is detached is gone at once: the same program can be attached again.
func TestProgramDetachedAtOnce(t *testing.T) {
	testenv.Root(t)
	if !kernel.HasTCX() {
		t.Skip("this kernel has no tcx")
	}
	n, err := netcfg.NewAnonymous()
	testenv.Must(t, err)
	defer n.Close()
	pin, p, filter := filepath.Join(pinFolder(t), "in_1"), programNamed(t, "first"), programNamed(t, "second")
	for i := range 40 {
		testenv.Must(t, attach(n, p, kernel.Ingress, pin))
		if i%2 == 0 {
			testenv.Must(t, kernel.DetachProgram(n, pin))
		} else { // both programs would run, as long as somebody else looks at the link
			held, err := tcx.LoadPinnedLink(pin, nil)
			testenv.Must(t, err)
			defer held.Close()
			testenv.Must(t, attach(n, filter, kernel.FilterIngress, pin))
		}
		var left *tcx.QueryResult
		err := host.Do(n.Path(), func() (err error) {
			left, err = tcx.QueryPrograms(tcx.QueryOptions{Target: device1, Attach: ebpf.AttachTCXIngress})
			return err
		})
		if err != nil && !errors.Is(err, os.ErrNotExist) || err == nil && len(left.Programs) > 0 {
			t.Fatalf("in turn %d it is still there: %v, %+v", i, err, left)
		}
	}
}

// A program of tcx is exchanged in its place and taken away, as one that is a filter.
func TestProgramOfTCX(t *testing.T) {
	testenv.Root(t)
	if !kernel.HasTCX() {
		t.Skip("this kernel has no tcx")
	}
	n, err := netcfg.NewAnonymous()
	testenv.Must(t, err)
	defer n.Close()
	pin := filepath.Join(pinFolder(t), "in_1")
	for _, p := range []*ebpf.Program{programNamed(t, "first"), programNamed(t, "second")} {
		testenv.Must(t, attach(n, p, kernel.Ingress, pin))
		if there, err := kernel.Attached(n, pin, device1, kernel.Ingress); err != nil || !there {
			t.Errorf("attached: %v, %v", there, err)
		}
	}
	if there, err := kernel.Attached(n, pin, device1, kernel.FilterIngress); err != nil || there {
		t.Errorf("attached as a filter: %v, %v", there, err)
	}
	// Another kind takes its place, and it goes.
	testenv.Must(t, attach(n, programNamed(t, "third"), kernel.FilterIngress, pin))
	if _, filters := tc(t, n); len(filters) != 1 || filters[0] != "third" {
		t.Errorf("filters are %v", filters)
	}
	testenv.Must(t, attach(n, programNamed(t, "fourth"), kernel.Ingress, pin))
	if _, filters := tc(t, n); len(filters) != 0 {
		t.Errorf("filters are %v", filters)
	}
	testenv.Must(t, kernel.DetachProgram(n, pin))
	if _, err := os.Lstat(pin); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the pin is left: %v", err)
	}
	var list *tcx.QueryResult
	testenv.Must(t, host.Do(n.Path(), func() (err error) {
		list, err = tcx.QueryPrograms(tcx.QueryOptions{Target: device1, Attach: ebpf.AttachTCXIngress})
		return err
	}))
	if len(list.Programs) > 0 {
		t.Errorf("left attached: %v", list.Programs)
	}
}

// A link of a kind that only another version of the daemon has, and that the kernel does not detach, goes with its
// pin.
func TestLinkOfOtherKind(t *testing.T) {
	testenv.Root(t)
	n, err := netcfg.NewAnonymous()
	testenv.Must(t, err)
	defer n.Close()
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.RawTracepoint, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}})
	testenv.Must(t, err)
	defer p.Close()
	held, err := tcx.AttachRawTracepoint(tcx.RawTracepointOptions{Name: "sched_process_exit", Program: p})
	testenv.Must(t, err)
	defer held.Close()
	pin := filepath.Join(pinFolder(t), "at_exit_1")
	testenv.Must(t, held.Pin(pin))
	testenv.Must(t, kernel.DetachProgram(n, pin))
	if _, err := os.Lstat(pin); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the pin is left: %v", err)
	}
}

// withForeignFilter does something with a filter of somebody else.
func withForeignFilter(p *ebpf.Program, do func(netlink.Filter) error) error {
	return do(&netlink.BpfFilter{
		FilterAttrs:  netlink.FilterAttrs{LinkIndex: device1, Parent: netlink.HANDLE_MIN_EGRESS, Protocol: 3, Priority: 7, Handle: 1},
		Fd:           p.FD(),
		Name:         "theirs",
		DirectAction: true,
	})
}

// A device at which an ingress qdisc stands has no place for programs: as if it were
// gone, for there is news of that.
func TestFilterBesideIngress(t *testing.T) {
	testenv.Root(t)
	n, err := netcfg.NewAnonymous()
	testenv.Must(t, err)
	defer n.Close()
	pins := pinFolder(t)
	testenv.Must(t, host.Do(n.Path(), func() error {
		return netlink.QdiscAdd(&netlink.Ingress{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: device1, Parent: netlink.HANDLE_INGRESS}})
	}))
	pin := filepath.Join(pins, "in_1")
	if err := attach(n, programNamed(t, "first"), kernel.FilterIngress, pin); !errors.Is(err, host.ErrGone) {
		t.Errorf("attached beside ingress: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(pins, "*_*")); err != nil || len(left) > 0 {
		t.Errorf("left in the folder: %v, %v", left, err)
	}
}
