package kernel

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/venturi-net/venturi/internal/netcfg"
	"golang.org/x/sys/unix"
)

// ProbeTCX probes whether the kernel has tcx.
func ProbeTCX(n *netcfg.Namespace) error { return probeAttach(n, Ingress) }

// ProbePrograms probes whether a program can do what those of a fast path do, for IPv4 or IPv6, and
// can be attached to a device, as a tc filter where there is no tcx.
func ProbePrograms(n *netcfg.Namespace) error {
	var is unix.Utsname
	if err := unix.Uname(&is); err != nil {
		return fmt.Errorf("ask for the kernel's version: %w", err)
	}
	if err := refuseRealTime(unix.ByteSliceToString(is.Version[:])); err != nil {
		return err
	}
	if err := probeAtomics(); err != nil {
		return fmt.Errorf("count with atomic instructions (Linux 5.12 or later): %w", err)
	}
	if err := probeEncap(); err != nil {
		return fmt.Errorf("put headers around a packet (Linux 5.13 or later): %w", err)
	}
	if HasTCX() {
		return probeAttach(n, Ingress)
	}
	return probeAttach(n, FilterIngress)
}

// refuseRealTime refuses kernels whose version says that they are preemptible everywhere. On those, a program that
// handles packets may be interrupted by another one on the same core, where softirqs have no lock of their own
// (CONFIG_PREEMPT_RT_NEEDS_BH_LOCK): then it could send a packet with the headers of another flow, because slots
// belong to a core.
func refuseRealTime(version string) error {
	if strings.Contains(version, "PREEMPT_RT") {
		return fmt.Errorf("use tables of a core without a lock (not with PREEMPT_RT, where programs interrupt each other): %w", unix.EOPNOTSUPP)
	}
	return nil
}

// probeAttach attaches a program that does nothing.
func probeAttach(n *netcfg.Namespace, at AttachPoint) error {
	p, err := filter(asm.Mov.Imm(asm.R0, -1), asm.Return())
	if err != nil {
		return err
	}
	defer p.Close()
	const loopback = 1
	return n.Wrap("attach a program to a device", n.Do(func() error {
		if at.IsFilter() {
			return errors.Join(addClsact(loopback), addFilter(n, p, loopback, at, "probe"))
		}
		l, err := at.attach(p, loopback)
		switch {
		case err == nil:
			err = l.Close()
		case errors.Is(err, ebpf.ErrNotSupported): // from the library, not the kernel
			err = fmt.Errorf("%w: %w", err, unix.EOPNOTSUPP)
		}
		return err
	}))
}

func filter(code ...asm.Instruction) (*ebpf.Program, error) {
	return ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL", Instructions: code})
}

// Arguments of bpf_skb_adjust_room, from linux/bpf.h.
const (
	roomMAC    = 1
	roomVXLAN  = 1<<0 | 1<<1 | 1<<4 | 1<<6 | ethLen<<56 // FIXED_GSO, ENCAP_L3_IPV4, ENCAP_L4_UDP, ENCAP_L2_ETH, ENCAP_L2
	roomLength = 50
	ethLen     = 14
)

// probeAtomics runs a program with an atomic fetch-and-add. An older verifier refuses the instruction,
// or takes it for an add that fetches nothing.
func probeAtomics() error {
	const before, added, fetch = 7, 1, 0x01 // BPF_FETCH
	add := asm.FetchAdd.Mem(asm.RFP, asm.R0, asm.DWord, -8)
	add.Constant = fetch // the library forgets it
	p, err := filter(
		asm.Mov.Imm(asm.R0, before),
		asm.StoreMem(asm.RFP, -8, asm.R0, asm.DWord),
		asm.Mov.Imm(asm.R0, added),
		add,
		asm.Return(),
	)
	if errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("%w: %w", err, unix.EOPNOTSUPP)
	}
	if err != nil {
		return err
	}
	defer p.Close()
	fetched, err := p.Run(&ebpf.RunOptions{Data: make([]byte, 64)})
	if err == nil && fetched != before {
		return unix.EOPNOTSUPP
	}
	return err
}

// probeEncap runs a program on a packet that makes room for headers around an Ethernet frame.
func probeEncap() error {
	p, err := filter(
		asm.Mov.Imm(asm.R2, roomLength),
		asm.Mov.Imm(asm.R3, roomMAC),
		asm.LoadImm(asm.R4, roomVXLAN, asm.DWord),
		asm.FnSkbAdjustRoom.Call(),
		asm.Return(),
	)
	if err != nil {
		return err
	}
	defer p.Close()
	packet := make([]byte, 64)
	packet[12], packet[14] = 0x08, 0x45 // IPv4
	result, err := p.Run(&ebpf.RunOptions{Data: packet})
	if errno := syscall.Errno(-int32(result)); err == nil && errno == unix.EINVAL {
		return unix.EOPNOTSUPP
	} else if err == nil && errno != 0 {
		return errno
	}
	return err
}
