package e2e

import (
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/traffic"
)

// invalidDatagrams are more than it takes until a flow is learned.
const invalidDatagrams = 20

// Datagrams that connection tracking calls invalid, because their checksums are wrong, teach nothing: a rule that
// denies new connections lets them pass, and drops the right ones behind them.
func TestFastPathLearnsNothingFromInvalid(t *testing.T) {
	requireFastPath(t)
	requireTools(t)
	l := testenv.Lab(t, lab.Options{Paths: basicFastPaths})
	for _, arm := range append(l.Arms, startIPv6(t, l, 0, addIPv6(t, l, 0), false)) {
		for i, m := range l.Machines {
			t.Run(fmt.Sprintf("%s to %v, a rule on %s", arm.Name, arm.Server().Addr, m.Name), func(t *testing.T) { checkInvalid(t, arm, m, arm.Pins[i]) })
		}
	}
}

// checkInvalid adds the rule on a machine, whose fast path has those pins.
func checkInvalid(t *testing.T, arm lab.Arm, m lab.Machine, pins string) {
	rulesHeard := func() uint64 {
		state, err := fastpath.ReadState(fastpath.StateFile(pins))
		testenv.Must(t, err)
		return state.Epochs.Counts[topology.Rules]
	}
	a, b, other, first := traffic.ListenUDP(t, arm.Client()), traffic.ListenUDP(t, arm.Server()), traffic.ListenUDP(t, arm.Server()), traffic.ListenUDP(t, arm.Server())
	for _, c := range []*net.UDPConn{a, b, other, first} {
		defer c.Close()
	}
	send(t, first, a) // what goes to a pod is carried once that has sent from its MAC
	from, to := addrPort(a), addrPort(b)
	family := tableFamily(to.Addr())
	before := rulesHeard()
	shell(t, m, nil, fmt.Sprintf(`nft 'table %[1]s denied { counter wrong { }; chain c {
		type filter hook forward priority 0;
		ct state invalid udp dport %[2]d counter name wrong; ct state new udp dport %[2]d drop; }; }'`, family, to.Port()))
	withdraw := "nft delete table " + family + " denied"
	defer func() { shell(t, m, nil, withdraw) }()
	eventually(t, "the daemon has heard of the rules", func() bool { return rulesHeard() != before }) // a busy one hears late
	untilOneWay(t, arm, a, other)                                                                     // by those rules
	sendInvalid(t, arm.Client(), from, to)
	for range invalidDatagrams {
		send(t, a, b)
	}
	var counted []byte
	testenv.InNetns(t, m.Namespace, func() (err error) {
		counted, err = exec.Command("nft", "list", "counter", family, "denied", "wrong").CombinedOutput()
		return err
	})
	if want := fmt.Sprintf("packets %d ", invalidDatagrams); !strings.Contains(string(counted), want) {
		t.Errorf("the rules have not seen all invalid datagrams: %s", counted)
	}
	shell(t, m, nil, withdraw)
	withdraw = ""
	const last = "the last one"
	_, err := a.WriteToUDPAddrPort([]byte(last), to)
	testenv.Must(t, err)
	testenv.Must(t, b.SetReadDeadline(time.Now().Add(testenv.Timeout)))
	for passed, buf := 0, make([]byte, 100); ; passed++ {
		n, err := b.Read(buf)
		testenv.Must(t, err)
		if string(buf[:n]) == last {
			if passed > 0 {
				t.Errorf("behind invalid datagrams, %d of %d have passed the rule that drops them", passed, invalidDatagrams)
			}
			return
		}
	}
}

// sendInvalid sends datagrams of a flow whose checksums are wrong.
func sendInvalid(t *testing.T, at host.Endpoint, from, to netip.AddrPort) {
	t.Helper()
	datagram := udp4{from: from.Port(), to: to.Port(), payload: []byte("?"), sum: wrongSum}.packetIn(ip4{src: from.Addr(), dst: to.Addr()}).payload
	testenv.InNetns(t, at.Namespace, func() error {
		fd, err := unix.Socket(domainOf(to.Addr()), unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_UDP)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		for range invalidDatagrams {
			if err := unix.Sendto(fd, datagram, 0, sockaddr(to.Addr(), 0)); err != nil {
				return err
			}
		}
		return nil
	})
}
