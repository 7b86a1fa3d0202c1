package e2e

import (
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/testenv"
)

// Ports of generated cases: each case has some of its own, so that no connection is
// tracked from one to the next.
const (
	firstGenPort   = 22000
	portsPerCase   = 16
	genPortBlocks  = 2000
	knockPort      = portsPerCase - 1 // in the block
	remoteFlowPort = 8                // in the block, of the first flow
)

// sockets are the ends of a flow: local is in the pod of the case's machine.
type sockets struct {
	flow
	local, remote         int
	localTo, remoteTo     unix.Sockaddr
	sentOut, sentIn       int
	arrivedOut, arrivedIn int
}

// open opens the flows of a case on a path.
func (p *genPath) open(t *testing.T, c generated, ports int) {
	local, remote := p.Ends[c.machine][0], p.Ends[1-c.machine][0]
	p.flows = nil
	for i, f := range c.flows {
		s := sockets{flow: f, localTo: sockaddr(remote.Addr, ports+remoteFlowPort+i), remoteTo: sockaddr(local.Addr, ports+i)}
		s.local, s.remote = genSocket(t, local, ports+i, f.tos), genSocket(t, remote, ports+remoteFlowPort+i, f.tos)
		p.flows = append(p.flows, s)
	}
	p.knockFrom, p.knockAt = genSocket(t, local, ports+knockPort-1, 0), genSocket(t, remote, ports+knockPort, 0)
	p.knockTo = sockaddr(remote.Addr, ports+knockPort)
}

// closeFlows closes all sockets.
func (p *genPath) closeFlows() {
	for _, s := range p.flows {
		unix.Close(s.local)
		unix.Close(s.remote)
	}
	p.conn.close()
	unix.Close(p.knockFrom)
	unix.Close(p.knockAt)
}

func genSocket(t *testing.T, at host.Endpoint, port, tos int) (fd int) {
	t.Helper()
	testenv.Must(t, host.Do(at.Namespace, func() (err error) {
		if fd, err = unix.Socket(domainOf(at.Addr), unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
			return err
		}
		return unix.Bind(fd, sockaddr(at.Addr, port))
	}))
	testenv.Must(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 4<<20))
	level, option := unix.IPPROTO_IP, unix.IP_TOS
	if at.Addr.Is6() {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_TCLASS
	}
	testenv.Must(t, unix.SetsockoptInt(fd, level, option, tos))
	return fd
}

// round sends one datagram of each flow each way, on all paths, in an order that
// favours none of them.
func (s *genSite) round() {
	for _, i := range rand.Perm(len(s.paths)) {
		p := s.paths[i]
		for j := range p.flows {
			f := &p.flows[j]
			if f.out > 0 { // what the kernel will not send is lost like anything else
				f.sentOut++
				_ = unix.Sendto(f.local, make([]byte, f.out), 0, f.localTo)
			}
			if f.in > 0 {
				f.sentIn++
				_ = unix.Sendto(f.remote, make([]byte, f.in), 0, f.remoteTo)
			}
		}
	}
	if s.tcp {
		for _, i := range rand.Perm(len(s.paths)) {
			s.paths[i].conn.send()
		}
	}
	time.Sleep(genPace)
	if s.tcp {
		for _, p := range s.paths {
			p.conn.receive()
		}
	}
}

// drain counts what has arrived, until no more does.
func (s *genSite) drain() {
	quiet := time.Now()
	for end := time.Now().Add(testenv.Timeout); time.Since(quiet) < settleTime && time.Now().Before(end); time.Sleep(time.Millisecond) {
		for _, p := range s.paths {
			if s.tcp && p.conn.receive() {
				quiet = time.Now()
			}
			for j := range p.flows {
				f := &p.flows[j]
				out, in := arrived(f.remote), arrived(f.local)
				f.arrivedOut += out
				f.arrivedIn += in
				if out+in > 0 {
					quiet = time.Now()
				}
			}
		}
	}
}

// arrived reads all that has come to a socket, and tells how many datagrams.
func arrived(fd int) (n int) {
	for buf := make([]byte, 1024); ; n++ {
		if _, _, err := unix.Recvfrom(fd, buf, unix.MSG_DONTWAIT); err != nil {
			return n
		}
	}
}

// knocks sends to the port that rules may wait for.
func (s *genSite) knocks() {
	for range 3 {
		for _, p := range s.paths {
			_ = unix.Sendto(p.knockFrom, []byte("knock"), 0, p.knockTo)
		}
		time.Sleep(genPace)
	}
	s.drain()
}
