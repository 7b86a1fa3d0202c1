package discover_test

import (
	"errors"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"
	"github.com/cilium/ebpf/link"
	vnl "github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/host"
)

// obstacle loads a program that does nothing: it returns a verdict.
func obstacle(t *testing.T, kind ebpf.ProgramType, at ebpf.AttachType, verdict int32) (*ebpf.Program, error) {
	t.Helper()
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "obstacle", Type: kind, AttachType: at, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, verdict), asm.Return()},
	})
	if err == nil {
		closeAfter(t, p)
	}
	return p, err
}

// Verdicts: TC_ACT_UNSPEC, XDP_PASS, NF_ACCEPT.
const (
	nextProgram = -1
	xdpPass     = 2
	accept      = 1
)

// tcxAt attaches a program to a device of the node.
func tcxAt(device string, at ebpf.AttachType) func(*testing.T, *site) error {
	return func(t *testing.T, s *site) error {
		t.Helper()
		if !kernel.HasTCX() {
			return errUnsupported
		}
		p, err := obstacle(t, ebpf.SchedCLS, ebpf.AttachNone, nextProgram)
		if err != nil {
			return err
		}
		return s.enterNode(device, func(index int) error {
			l, err := link.AttachTCX(link.TCXOptions{Interface: index, Program: p, Attach: at})
			if err == nil {
				closeAfter(t, l)
			}
			return err
		})
	}
}

// filterAt attaches a program as a filter of what a device of the node receives.
func filterAt(device string) func(*testing.T, *site) error {
	return func(t *testing.T, s *site) error {
		t.Helper()
		p, err := obstacle(t, ebpf.SchedCLS, ebpf.AttachNone, nextProgram)
		if err != nil {
			return err
		}
		return s.enterNode(device, func(index int) error {
			qdisc := vnl.QdiscAttrs{LinkIndex: index, Handle: vnl.MakeHandle(0xffff, 0), Parent: vnl.HANDLE_CLSACT}
			if err := vnl.QdiscAdd(&vnl.GenericQdisc{QdiscAttrs: qdisc, QdiscType: "clsact"}); err != nil {
				return err
			}
			return vnl.FilterAdd(&vnl.BpfFilter{
				FilterAttrs: vnl.FilterAttrs{LinkIndex: index, Parent: vnl.HANDLE_MIN_INGRESS, Priority: 7, Protocol: unix.ETH_P_ALL},
				Fd:          p.FD(), Name: "obstacle", DirectAction: true,
			})
		})
	}
}

// xdpAt attaches a program to a device, on the node or at the other end of its links.
func xdpAt(enter func(s *site, device string, do func(index int) error) error, device string) func(*testing.T, *site) error {
	return func(t *testing.T, s *site) error {
		t.Helper()
		p, err := obstacle(t, ebpf.XDP, ebpf.AttachNone, xdpPass)
		if err != nil {
			return err
		}
		return enter(s, device, func(index int) error {
			l, err := link.AttachXDP(link.XDPOptions{Program: p, Interface: index})
			if err == nil {
				closeAfter(t, l)
			}
			return err
		})
	}
}

// netfilterProgram attaches a program to netfilter's hook for what the node forwards.
func netfilterProgram(t *testing.T, s *site) error {
	t.Helper()
	if errors.Is(features.HaveProgramType(ebpf.Netfilter), ebpf.ErrNotSupported) {
		return errUnsupported
	}
	p, err := obstacle(t, ebpf.Netfilter, ebpf.AttachNetfilter, accept)
	if err != nil {
		return err
	}
	return host.Do(s.node.Path(), func() error {
		l, err := link.AttachNetfilter(link.NetfilterOptions{Program: p, ProtocolFamily: link.NetfilterProtoIPv4, Hook: link.NetfilterInetForward, Priority: 7})
		if err == nil {
			closeAfter(t, l)
		}
		return err
	})
}

// enterNode enters the node for one of its devices.
func (s *site) enterNode(device string, do func(index int) error) error {
	return withDevice(s.node.Path(), device, do)
}

// enterFarEnds enters the namespace of the other ends of links for a device there.
func (s *site) enterFarEnds(device string, do func(index int) error) error {
	return withDevice(s.farEnds.Path(), device, do)
}

func withDevice(namespace, device string, do func(index int) error) error {
	return host.Do(namespace, func() error {
		l, err := vnl.LinkByName(device)
		if err != nil {
			return err
		}
		return do(l.Attrs().Index)
	})
}
