package reach

import (
	"io"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"testing"
	"time"
)

// Many paths have a port each, and one whose listener cannot be opened keeps no other from
// being tried.
func TestListeners(t *testing.T) {
	here := Socket{Addr: netip.MustParseAddr("127.0.0.1")}
	var r Trials
	r.Secret[0] = 7
	const bad = 5
	for i := range 50 {
		trial := Trial{Transport: []string{"tcp", "udp"}[i%2], From: here, To: here}
		if i == bad {
			trial.To.Addr = netip.MustParseAddr("192.0.2.77") // of another machine
		}
		r.Trials = append(r.Trials, trial)
	}
	var l Listeners
	defer l.close()
	all, err := l.listen(t.Context(), r)
	if err != nil || len(all) != len(r.Trials) {
		t.Fatalf("%d listeners, %v", len(all), err)
	}
	seen := map[int]bool{}
	for i, one := range all {
		if i == bad {
			if one.Failed == "" || one.Port != 0 {
				t.Errorf("at a foreign address: %+v", one)
			}
			continue
		}
		if one.Failed != "" || one.Port < firstPort || one.Port >= firstPort+portCount || seen[one.Port] {
			t.Errorf("listener %d: %+v", i, one)
		}
		seen[one.Port] = true
		r.Trials[i].Port = one.Port
	}
	tried := r
	tried.Trials = slices.Delete(slices.Clone(r.Trials), bad, bad+1) // the tests send nothing to foreign addresses
	failed, err := dialAll(t.Context(), tried)
	if err != nil {
		t.Fatal(err)
	}
	heard := l.close()
	if heard[bad] {
		t.Error("somebody was heard at a foreign address")
	}
	heard = slices.Delete(heard, bad, bad+1)
	for i := range tried.Trials {
		if failed[i] != "" || !heard[i] {
			t.Errorf("trial %d of those tried: %q, heard: %v", i, failed[i], heard[i])
		}
	}
}

// All ports come, each once.
func TestPorts(t *testing.T) {
	p := newPorts(Secret{0xff, 0xff})
	seen := map[int]bool{}
	for port, ok := p.take(); ok; port, ok = p.take() {
		seen[port] = true
	}
	if len(seen) != portCount || !seen[firstPort] || !seen[firstPort+portCount-1] {
		t.Errorf("%d ports", len(seen))
	}
}

// listenHere opens a listener on this host.
func listenHere(t *testing.T, secret Secret) *listener {
	t.Helper()
	l, err := listen(Trial{Transport: "tcp", To: Socket{Addr: netip.MustParseAddr("127.0.0.1")}}, secret, newPorts(secret))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.socket.Close() })
	return l
}

// dialHere connects to a listener, and gives up on it only after long.
func dialHere(t *testing.T, l *listener, d net.Dialer) net.Conn {
	t.Helper()
	conn, err := d.Dial("tcp4", l.address.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	return conn
}

// checkAnswer says the secret, and wants it back.
func checkAnswer(t *testing.T, conn net.Conn, secret Secret) {
	t.Helper()
	var got Secret
	_, err := conn.Write(secret[:])
	if err == nil {
		_, err = io.ReadFull(conn, got[:])
	}
	if err != nil || got != secret {
		t.Errorf("answer %x, %v", got, err)
	}
}

// However many connections say nothing, so many are kept at most, and who knows the secret is answered
// and keeps its connection.
func TestStrangersMakeRoom(t *testing.T) {
	strangerLimit = time.Hour // for this listener; others are of tests that say something
	secret := Secret{1}
	l := listenHere(t, secret)
	known := dialHere(t, l, net.Dialer{})
	checkAnswer(t, known, secret)
	var first net.Conn
	for range maxStrangers + 1 {
		if conn := dialHere(t, l, net.Dialer{}); first == nil {
			first = conn
		}
	}
	if _, err := first.Read(make([]byte, 1)); err == nil || err.(net.Error).Timeout() {
		t.Errorf("the oldest stranger: %v", err)
	}
	if _, err := known.Write([]byte{0}); err != nil {
		t.Errorf("who was answered: %v", err)
	}
	checkAnswer(t, dialHere(t, l, net.Dialer{}), secret)
}

// A listener that has no descriptor for a connection goes on when there is one again.
func TestAcceptWithoutDescriptors(t *testing.T) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	set := func(cur uint64) error {
		return syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: cur, Max: limit.Max})
	}
	secret := Secret{2}
	l := listenHere(t, secret)
	t.Cleanup(func() { _ = set(limit.Cur) })
	conn := dialHere(t, l, net.Dialer{Control: func(string, string, syscall.RawConn) error { return set(3) }})
	time.Sleep(5 * acceptPause)
	if err := set(limit.Cur); err != nil {
		t.Fatal(err)
	}
	checkAnswer(t, conn, secret)
}
