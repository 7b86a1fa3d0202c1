package topology_test

import (
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/testenv"
)

// A new program is detected host-wide, and raises the revision of its attach point.
func TestBPFObjects(t *testing.T) {
	testenv.Root(t)
	if !kernel.HasTCX() {
		t.Skip("this kernel has no tcx")
	}
	n := testenv.Netns(t)
	var objects topology.BPFObjectIDs
	objects.HasNew()
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()}})
	testenv.Must(t, err)
	defer p.Close()
	if !objects.HasNew() {
		t.Error("a program that was loaded is not seen")
	}
	const loopback, ingress = 1, uint32(ebpf.AttachTCXIngress)
	testenv.InNetns(t, n.Path(), func() error {
		revision := func() uint64 {
			r, err := topology.ProgramsRevision(loopback, ingress)
			testenv.Must(t, err)
			return r
		}
		before := revision()
		l, err := link.AttachTCX(link.TCXOptions{Interface: loopback, Program: p, Attach: ebpf.AttachTCXIngress})
		if err != nil {
			return err
		}
		if !objects.HasNew() {
			t.Error("a link that was made is not seen")
		}
		during := revision()
		testenv.Must(t, l.Close())
		if after := revision(); before == during || during == after {
			t.Errorf("revisions are %d, %d with a program, and %d without it again", before, during, after)
		}
		return nil
	})
	if r, err := topology.ProgramsRevision(1<<20, ingress); r != 0 || err != nil {
		t.Errorf("at a device that is not there the revision is %d, %v", r, err)
	}
}
