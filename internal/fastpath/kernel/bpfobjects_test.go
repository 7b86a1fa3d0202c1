package kernel_test

import (
	"runtime"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/testenv"
)

// A new program for packets is detected host-wide, and raises the revision of its attach point.
func TestBPFObjects(t *testing.T) {
	testenv.Root(t)
	if !kernel.HasTCX() {
		t.Skip("this kernel has no tcx")
	}
	n := testenv.Netns(t)
	var objects kernel.BPFObjectIDs
	objects.Poll()
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()}})
	testenv.Must(t, err)
	defer p.Close()
	if !objects.Poll().Programs {
		t.Error("a program that was loaded is not seen")
	}
	const loopback, ingress = 1, uint32(ebpf.AttachTCXIngress)
	testenv.InNetns(t, n.Path(), func() error {
		revision := func() uint64 {
			r, err := kernel.ProgramsRevision(loopback, ingress)
			testenv.Must(t, err)
			return r
		}
		before := revision()
		l, err := link.AttachTCX(link.TCXOptions{Interface: loopback, Program: p, Attach: ebpf.AttachTCXIngress})
		if err != nil {
			return err
		}
		if !objects.Poll().Programs {
			t.Error("a link that was made is not seen")
		}
		during := revision()
		testenv.Detach(t, l)
		if after := revision(); before == during || during == after {
			t.Errorf("revisions are %d, %d with a program, and %d without it again", before, during, after)
		}
		return nil
	})
	if r, err := kernel.ProgramsRevision(1<<20, ingress); r != 0 || err != nil {
		t.Errorf("at a device that is not there the revision is %d, %v", r, err)
	}
}

// An XDP program that a link attaches is told apart, wherever it is.
func TestBPFNewsOfXDP(t *testing.T) {
	testenv.Root(t)
	n := testenv.Netns(t)
	var objects kernel.BPFObjectIDs
	objects.Poll()
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}})
	testenv.Must(t, err)
	defer p.Close()
	if !objects.Poll().Programs {
		t.Error("an XDP program that was loaded is not seen")
	}
	testenv.InNetns(t, n.Path(), func() error {
		const loopback = 1
		l, err := link.AttachXDP(link.XDPOptions{Interface: loopback, Program: p, Flags: link.XDPGenericMode})
		if err != nil {
			return err
		}
		if news := objects.Poll(); !news.Programs || !news.XDPLinks {
			t.Errorf("of its link: %+v", news)
		}
		testenv.Detach(t, l)
		return nil
	})
}

// Who may not list programs and links must take anything for possible.
func TestBPFNewsWithoutPrivileges(t *testing.T) {
	testenv.Root(t)
	var before, denied kernel.BPFNews
	err := host.InThread(func() error {
		runtime.LockOSThread() // for good: the thread ends with its goroutine
		var objects kernel.BPFObjectIDs
		objects.Poll()
		before = objects.Poll()
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var data [2]unix.CapUserData
		if err := unix.Capget(&header, &data[0]); err != nil {
			return err
		}
		for _, c := range []int{unix.CAP_SYS_ADMIN, unix.CAP_BPF} {
			data[c/32].Effective &^= 1 << (c % 32)
		}
		if err := unix.Capset(&header, &data[0]); err != nil {
			return err
		}
		denied = objects.Poll()
		return nil
	})
	testenv.Must(t, err)
	if !denied.Programs || !denied.XDPLinks {
		t.Errorf("without the privilege the news are %+v (%+v with it)", denied, before)
	}
}
