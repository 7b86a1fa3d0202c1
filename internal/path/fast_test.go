package path_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
)

var fastPathsOf = []string{"routed+fast", "vxlan+fast"}

// fastPathsHere are those that this kernel can do; in a guest, those that it has for
// them alone.
func fastPathsHere() []string {
	var netkits []string
	if answer, _ := feature.Netkit.Ask(); answer == feature.Yes {
		netkits = []string{"netkit+fast", "netkit+fast:mode=l2", "vxlan+fast:pods=netkit"}
	}
	switch {
	case !kernel.HasTCX():
		return fastPathsOf
	case len(netkits) > 0 && agenttest.InGuest():
		return netkits
	}
	return slices.Concat(fastPathsOf, []string{withFilters}, netkits)
}

// withFilters is a path whose programs are tc filters, whatever the kernel has.
const withFilters = "vxlan+fast:attach=tc"

// Established flows are carried, both ways on both machines, whether conntrack
// follows them or not.
func TestFastPathCarries(t *testing.T) {
	needsFast(t)
	for _, services := range []int{0, 30} {
		l := testenv.Lab(t, lab.Options{Paths: fastPathsHere(), Services: services})
		for _, arm := range l.Arms {
			t.Run(arm.Name, func(t *testing.T) {
				checkTCP(t, arm.From(), arm.To())
				talk(t, arm, func(exchange func(time.Duration) error) { untilCarried(t, arm, exchange) })
			})
		}
	}
}

func needsFast(t *testing.T) {
	t.Helper()
	testenv.Root(t)
	if answer, err := feature.Programs.Ask(); answer != feature.Yes {
		t.Skipf("this kernel has no fast path: %v", err)
	}
}

// talk opens a UDP flow between the pods of a path, in which each datagram is
// answered; exchange sends one and waits for the answer.
func talk(t *testing.T, arm lab.Arm, with func(exchange func(wait time.Duration) error)) {
	t.Helper()
	server, client := listen(t, arm.To()), listen(t, arm.From())
	defer server.Close()
	defer client.Close()
	go func() {
		for buf := make([]byte, 64); ; {
			n, from, err := server.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			_, _ = server.WriteToUDPAddrPort(buf[:n], from) // one that is lost is missed by the client
		}
	}()
	to := server.LocalAddr().(*net.UDPAddr).AddrPort()
	n := uint64(0)
	with(func(wait time.Duration) error {
		n++
		ping := binary.BigEndian.AppendUint64(nil, n)
		if _, err := client.WriteToUDPAddrPort(ping, to); err != nil {
			return err
		}
		must(t, client.SetReadDeadline(time.Now().Add(wait)))
		for buf := make([]byte, 64); ; { // answers that come late are not this one's
			if got, _, err := client.ReadFromUDPAddrPort(buf); err != nil || bytes.Equal(buf[:got], ping) {
				return err
			}
		}
	})
}

func listen(t *testing.T, at host.Endpoint) (c *net.UDPConn) {
	t.Helper()
	must(t, host.Do(at.Namespace, func() (err error) {
		c, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(at.Addr, 0)))
		return err
	}))
	return c
}

// untilCarried exchanges datagrams until a hundred of them have been carried both
// ways on both machines.
func untilCarried(t *testing.T, arm lab.Arm, exchange func(wait time.Duration) error) {
	t.Helper()
	before := carried(t, arm)
	for end := time.Now().Add(patience); ; {
		must(t, exchange(patience))
		least := ^uint64(0)
		for i, now := range carried(t, arm) {
			least = min(least, now-before[i])
		}
		switch {
		case least >= 100:
			return
		case time.Now().After(end):
			t.Fatalf("after %v of exchanges, machines carried %v, and %v before", patience, carried(t, arm), before)
		}
	}
}

// carried is how many packets were carried: out and in of the first machine, then of
// the second.
func carried(t *testing.T, arm lab.Arm) (packets []uint64) {
	t.Helper()
	for _, pins := range arm.Pins {
		stats, err := fastpath.ReadStats(pins)
		must(t, err)
		packets = append(packets, stats[bpf.CarriedOut].Packets, stats[bpf.CarriedIn].Packets)
	}
	if len(packets) == 0 {
		must(t, errors.New("there is no fast path"))
	}
	return packets
}

// A rule that forbids what is carried takes hold by itself, and so does its end.
func TestFastPathObeysNewRules(t *testing.T) {
	needsFast(t)
	l := testenv.Lab(t, lab.Options{Paths: fastPathsHere()})
	for _, arm := range l.Arms {
		for i, m := range l.Machines {
			t.Run(arm.Name+" "+m.Name, func(t *testing.T) {
				talk(t, arm, func(exchange func(wait time.Duration) error) {
					untilCarried(t, arm, exchange)
					allow := testenv.Forbid(t, m.Namespace)
					untilAnswer(t, exchange, false)
					before := carried(t, arm)
					for range 20 {
						_ = exchange(time.Millisecond) // nothing is to come back
					}
					if now := carried(t, arm); now[2*i] != before[2*i] {
						t.Errorf("%s carries what its rules forbid: %v, before %v", m.Name, now, before)
					}
					allow()
					untilAnswer(t, exchange, true)
					untilCarried(t, arm, exchange)
				})
			})
		}
	}
}

// carriesUntilForbidden: a flow is carried until a rule of a machine forbids it, and
// after that again.
func carriesUntilForbidden(t *testing.T, arm lab.Arm, m lab.Machine) {
	t.Helper()
	talk(t, arm, func(exchange func(time.Duration) error) {
		untilCarried(t, arm, exchange)
		allow := testenv.Forbid(t, m.Namespace)
		untilAnswer(t, exchange, false)
		allow()
		untilAnswer(t, exchange, true)
		untilCarried(t, arm, exchange)
	})
}

// untilAnswer exchanges datagrams until three in a row are answered, or are not.
func untilAnswer(t *testing.T, exchange func(wait time.Duration) error, answered bool) {
	t.Helper()
	end := time.Now().Add(patience)
	for row := 0; row < 3; {
		row++
		if err := exchange(100 * time.Millisecond); (err == nil) != answered {
			row = 0
		}
		if time.Now().After(end) {
			t.Fatalf("after %v, datagrams are still not (answered: %v)", patience, answered)
		}
	}
}

// When its daemon is killed, the fast path gives up by itself, and loses nothing.
// The next daemon takes over.
func TestFastPathWithoutDaemon(t *testing.T) {
	needsFast(t)
	l := testenv.Lab(t, lab.Options{Paths: fastPathsHere()})
	for _, arm := range l.Arms {
		t.Run(arm.Name, func(t *testing.T) {
			talk(t, arm, func(exchange func(wait time.Duration) error) {
				untilCarried(t, arm, exchange)
				config := filepath.Join(filepath.Dir(arm.Pins[0]), "fast.json")
				must(t, unix.Kill(daemonOf(t, l.Machines[0].Namespace, config), unix.SIGKILL))
				untilSlow(t, arm, exchange)
				again := exec.Command(testenv.Program(t)[0], "fastpath", "--config", config)
				again.Stderr = t.Output()
				must(t, host.Do(l.Machines[0].Namespace, again.Start))
				defer func() {
					must(t, again.Process.Signal(unix.SIGTERM))
					must(t, again.Wait())
				}()
				untilCarried(t, arm, exchange)
			})
		})
	}
}

// daemonOf finds the daemon with a config.
func daemonOf(t *testing.T, namespace, config string) int {
	t.Helper()
	id, err := host.ID(namespace)
	must(t, err)
	pids, err := host.Reader{}.ProcessesIn(id)
	must(t, err)
	for _, pid := range pids {
		if slices.Contains(host.Reader{}.Command(pid), config) {
			return pid
		}
	}
	t.Fatalf("there is no daemon with config %s", config)
	return 0
}

// untilSlow exchanges datagrams until a hundred in a row are carried by nobody on
// the first machine: not one of them may be lost.
func untilSlow(t *testing.T, arm lab.Arm, exchange func(wait time.Duration) error) {
	t.Helper()
	end := time.Now().Add(patience)
	before := carried(t, arm)
	for row := 0; row < 100; row++ {
		must(t, exchange(patience))
		if now := carried(t, arm); now[0] != before[0] || now[1] != before[1] {
			before, row = now, 0
		}
		if time.Now().After(end) {
			t.Fatalf("after %v without a daemon, packets are still carried", patience)
		}
	}
}
