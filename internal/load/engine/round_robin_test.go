package engine

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"

	"github.com/venturi-net/venturi/internal/load"
)

const roundNear, roundFar = 3, 2

func openRound(t *testing.T, port int) *RoundRobin {
	t.Helper()
	end := host.Endpoint{Addr: netip.MustParseAddr("127.0.0.1"), MTU: 65536}
	r, err := OpenRoundRobin(load.Pair{From: end, To: end}, roundNear, roundFar, port, port+roundNear, -1, -1)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Each pair of sockets has its turn, and as often as any other.
func TestRoundRobin(t *testing.T) {
	r := openRound(t, 27700)
	seen := map[[2]int]int{}
	for range 2 * r.Flows() {
		near, far := r.pair()
		seen[[2]int{near, far}]++
		r.turn()
	}
	if len(seen) != roundNear*roundFar || r.next != 0 {
		t.Errorf("two times round, these had their turn: %v", seen)
	}
	for _, times := range []int{1, 4} {
		if trips, err := r.Tour(0, r.Flows(), times); err != nil || trips.Requests != int64(times*r.Flows()) || trips.Lost != 0 || trips.Median <= 0 || r.next != 0 {
			t.Errorf("a tour of %d requests a flow: %+v, %v, and on with flow %d", times, trips, err, r.next)
		}
	}
	if trips, err := r.Ping(20 * time.Millisecond); err != nil || trips.Requests == 0 || trips.Lost != 0 || trips.Median <= 0 {
		t.Errorf("%+v, %v", trips, err)
	}
	// A reply that is late is not taken for one to the request of now.
	var late [requestSize]byte
	binary.LittleEndian.PutUint64(late[numberAt:], 1)
	for i := range r.clients {
		if err := r.servers[0].sendTo(late[:], &unix.SockaddrInet4{Port: 27700 + i, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
			t.Fatal(err)
		}
	}
	if trips, err := r.Tour(0, r.Flows(), 1); err != nil || trips.Lost != 0 {
		t.Errorf("after late replies: %+v, %v", trips, err)
	}
	// What is to have no reply has none.
	if err := r.Send(time.Millisecond); err != nil {
		t.Error(err)
	}
	if _, err := r.clients[0].recv(r.buf); err != unix.EAGAIN {
		t.Errorf("a reply to what is to have none, or %v", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// Requests that nobody answers are counted, and hold up no other flow.
func TestRoundRobinLost(t *testing.T) {
	r := openRound(t, 27720)
	r.servers[1].shutdown()
	if trips, err := r.Tour(0, r.Flows(), 1); err != nil || trips.Requests != roundNear*roundFar || trips.Lost != roundNear || trips.Median <= 0 {
		t.Errorf("%+v, %v; want all of one socket's lost", trips, err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	end := host.Endpoint{Addr: netip.MustParseAddr("192.0.2.1")} // nobody's
	if _, err := OpenRoundRobin(load.Pair{From: end, To: end}, 1, 1, 27730, 27731, -1, -1); err == nil {
		t.Error("opened at an address that is not here")
	}
}
