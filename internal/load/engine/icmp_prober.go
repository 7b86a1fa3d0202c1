package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/verr"
)

const (
	icmpEchoReply   = 0
	icmpEchoRequest = 8
	icmpHeader      = 8
	ipHeader        = 20
	mostIPHeader    = 60
)

// icmpProber sends echo requests on an ICMP socket.
type icmpProber struct {
	conn  socket
	clock clock
	token uint64
	raw   bool // the kernel gives the IP header, too, and leaves the identifier to us
	out   []byte
	in    []byte

	// offset is by how much the clock of the day was ahead of the client's when an answer was
	// last taken, ns: it changes when that clock is set.
	offset int64

	header  unix.Msghdr
	vector  unix.Iovec
	control [64]byte // for the time of arrival
}

// newICMPProber opens the socket in the namespace of the client's end. A raw socket serves
// root in any namespace; a ping socket serves groups that the namespace allows.
func newICMPProber(ends load.Pair, id int, clock clock, token uint64, size int) (*icmpProber, error) {
	p := &icmpProber{clock: clock, token: token, out: make([]byte, icmpHeader+size), in: make([]byte, mostIPHeader+icmpHeader+size+1)}
	err := host.Do(ends.From.Namespace, func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
		p.raw = err == nil
		if errors.Is(err, unix.EPERM) {
			fd, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
		}
		if errors.Is(err, unix.EACCES) {
			return verr.New(verr.Failed, "cannot open an ICMP socket", "this needs root, or a group that the namespace lets ping",
				"run as root, or set net.ipv4.ping_group_range")
		}
		if err != nil {
			return fmt.Errorf("open icmp socket: %w", err)
		}
		p.conn = socket{fd: fd, hot: true}
		if err := p.prepare(ends, id); err != nil {
			p.close()
			return err
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	p.offset = p.wallAhead(time.Now())
	p.out[0] = icmpEchoRequest
	binary.BigEndian.PutUint16(p.out[4:], uint16(id))
	binary.BigEndian.PutUint64(p.out[icmpHeader:], token)
	p.vector.Base = unsafe.SliceData(p.in)
	p.header.Iov = &p.vector
	p.header.SetIovlen(1)
	p.header.Control = &p.control[0]
	return p, nil
}

func (p *icmpProber) prepare(ends load.Pair, id int) error {
	if p.raw {
		if err := p.filter(uint16(id)); err != nil {
			return fmt.Errorf("set a filter of ICMP's identifier: %w", err)
		}
	}
	if err := unix.SetsockoptInt(p.conn.fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1); err != nil {
		return fmt.Errorf("set SO_TIMESTAMPNS: %w", err)
	}
	// The port of a ping socket is the identifier; a raw socket has none.
	if err := unix.Bind(p.conn.fd, sockaddr(netip.AddrPortFrom(ends.From.Addr, uint16(id)))); err != nil {
		return fmt.Errorf("bind icmp socket to %s: %w", ends.From.Addr, err)
	}
	if err := unix.Connect(p.conn.fd, sockaddr(netip.AddrPortFrom(ends.To.Addr, 0))); err != nil {
		return fmt.Errorf("connect icmp socket to %s: %w", ends.To.Addr, err)
	}
	return nil
}

// filter lets in only echo replies to id. A raw socket gets those of all that ping in its
// namespace, and what fills its buffer meanwhile leaves no room for its own.
func (p *icmpProber) filter(id uint16) error {
	program := []unix.SockFilter{
		{Code: unix.BPF_LDX | unix.BPF_B | unix.BPF_MSH},                          // X = length of the IP header
		{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_IND},                           // A = type
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: icmpEchoReply, Jf: 3}, // else drop
		{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_IND, K: 4},                     // A = identifier
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(id), Jf: 1},    // else drop
		{Code: unix.BPF_RET | unix.BPF_K, K: 1<<32 - 1},                           // take it whole
		{Code: unix.BPF_RET | unix.BPF_K},                                         // drop it
	}
	return unix.SetsockoptSockFprog(p.conn.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(program)), Filter: unsafe.SliceData(program)})
}

func (p *icmpProber) fd() int { return p.conn.fd }
func (p *icmpProber) close()  { p.conn.close() }

func (p *icmpProber) send(number uint64) error {
	binary.BigEndian.PutUint16(p.out[6:], uint16(number))
	binary.BigEndian.PutUint64(p.out[icmpHeader+8:], number)
	binary.BigEndian.PutUint16(p.out[2:], 0)
	binary.BigEndian.PutUint16(p.out[2:], checksum(p.out))
	_, err := p.conn.sendNow(p.out)
	return err
}

func (p *icmpProber) receive() (number uint64, at int64, ok bool, err error) {
	p.vector.SetLen(len(p.in))
	p.header.SetControllen(len(p.control))
	n, err := p.conn.call(unix.SYS_RECVMSG, unsafe.Pointer(&p.header), unix.MSG_DONTWAIT, 0)
	if err != nil {
		return 0, 0, false, err
	}
	at = p.arrival()
	b := p.in[:n]
	if p.raw {
		if len(b) < ipHeader || len(b) < int(b[0]&0x0f)*4 {
			return 0, 0, false, nil
		}
		b = b[int(b[0]&0x0f)*4:]
	}
	if len(b) != len(p.out) || b[0] != icmpEchoReply || [2]byte(b[4:6]) != [2]byte(p.out[4:6]) ||
		binary.BigEndian.Uint64(b[icmpHeader:]) != p.token {
		return 0, 0, false, nil // another's
	}
	return binary.BigEndian.Uint64(b[icmpHeader+8:]), at, true, nil
}

// wallAhead is by how much the clock of the day is ahead of the client's.
func (p *icmpProber) wallAhead(now time.Time) int64 {
	return now.UnixNano() - int64(now.Sub(p.clock.base))
}

// steppedClock is how far the two clocks drift apart between two answers at most, where none of
// them is set.
const steppedClock = time.Millisecond

// arrival says by the client's clock when the packet that was just received came in. The
// kernel's stamp is of the clock of the day: it only tells how long ago, and nothing where that
// clock was set since the answer before.
func (p *icmpProber) arrival() int64 {
	now := time.Now()
	at := int64(now.Sub(p.clock.base))
	moved := p.wallAhead(now) - p.offset
	p.offset += moved
	if time.Duration(moved).Abs() > steppedClock {
		return at
	}
	const headerLen = unix.SizeofCmsghdr
	if int(p.header.Controllen) < headerLen+int(unsafe.Sizeof(unix.Timespec{})) {
		return at
	}
	h := (*unix.Cmsghdr)(unsafe.Pointer(&p.control[0]))
	if h.Level != unix.SOL_SOCKET || h.Type != unix.SCM_TIMESTAMPNS {
		return at
	}
	stamp := (*unix.Timespec)(unsafe.Pointer(&p.control[headerLen]))
	ago := now.UnixNano() - syscall.TimespecToNsec(syscall.Timespec(*stamp))
	if ago < 0 || ago > load.ScheduleTimeout.Nanoseconds() {
		return at // no time that makes sense
	}
	return at - ago
}

// checksum is that of IP and ICMP (RFC 1071).
func checksum(b []byte) uint16 {
	var sum uint64
	for ; len(b) >= 4; b = b[4:] {
		sum += uint64(binary.BigEndian.Uint32(b))
	}
	var rest [4]byte
	copy(rest[:], b)
	sum += uint64(binary.BigEndian.Uint32(rest[:]))
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
