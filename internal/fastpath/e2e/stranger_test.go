package e2e

import (
	"errors"
	"os"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	vnl "github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
)

// strangersProgram is one of somebody else that has the name of one of a fast path.
func strangersProgram(t *testing.T) *ebpf.Program {
	t.Helper()
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "to_pod", Type: ebpf.SchedCLS, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()}})
	testenv.Must(t, err)
	t.Cleanup(func() { p.Close() })
	return p
}

// programOfOurName attaches one to a pod's device.
func programOfOurName(t *testing.T, m lab.Machine, pod, _ string) (detach func()) {
	t.Helper()
	if !kernel.HasTCX() {
		return nil
	}
	var l link.Link
	testenv.InNetns(t, m.Namespace, func() error {
		on, err := vnl.LinkByName(pod)
		if err == nil {
			l, err = link.AttachTCX(link.TCXOptions{Interface: on.Attrs().Index, Program: strangersProgram(t), Attach: ebpf.AttachTCXEgress})
		}
		return err
	})
	return func() { testenv.Detach(t, l) }
}

// filterOfOurName puts one into a filter whose name is that of a fast path's, too.
func filterOfOurName(t *testing.T, m lab.Machine, pod, _ string) (remove func()) {
	t.Helper()
	var f *vnl.BpfFilter
	testenv.InNetns(t, m.Namespace, func() error {
		on, err := vnl.LinkByName(pod)
		if err != nil {
			return err
		}
		at := vnl.QdiscAttrs{LinkIndex: on.Attrs().Index, Handle: vnl.MakeHandle(0xffff, 0), Parent: vnl.HANDLE_CLSACT}
		if err := vnl.QdiscAdd(&vnl.Clsact{QdiscAttrs: at}); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
		f = &vnl.BpfFilter{
			FilterAttrs: vnl.FilterAttrs{LinkIndex: on.Attrs().Index, Parent: vnl.HANDLE_MIN_EGRESS, Protocol: unix.ETH_P_ALL, Priority: 7, Handle: 1},
			Fd:          strangersProgram(t).FD(), Name: topology.OwnFilterPrefix + "/run/stranger/to_pod_1", DirectAction: true,
		}
		return vnl.FilterAdd(f)
	})
	return func() { testenv.InNetns(t, m.Namespace, func() error { return vnl.FilterDel(f) }) }
}
