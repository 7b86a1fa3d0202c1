package agent_test

import (
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/agent"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/plain"
)

// ring are four agents: those of two machines and, behind each, one that plays
// the agent in a virtual machine of it.
type ring struct {
	client, server           *agent.Client
	clientGuest, serverGuest string // sockets
	nearProcess              *os.Process
}

func newRing(t *testing.T) ring {
	t.Helper()
	var r ring
	r.client, _ = spawn(t, "agent")
	r.server, _ = spawn(t, "agent")
	r.clientGuest, r.nearProcess = spawnBehind(t, "agent")
	r.serverGuest, _ = spawnBehind(t, "agent")
	for _, socket := range []string{r.clientGuest, r.serverGuest} {
		c, err := agent.Dial(t.Context(), socket) // until it listens
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	return r
}

// plan has arms with ends in no, both, one and the other virtual machine.
func (r ring) plan(name string, rounds int) load.Plan {
	end := func(last byte, agent string) host.Endpoint {
		return host.Endpoint{Machine: "m", Device: "lo", Addr: netip.AddrFrom4([4]byte{127, 0, 3, last}), MTU: 65536, Agent: agent}
	}
	p := load.Plan{
		Token: 4242, Load: name, Size: 64, Flows: 2, Slice: 10 * time.Millisecond, Head: time.Millisecond,
		ClientCPU: 0, ServerCPU: 0,
	}
	for i, agents := range [][2]string{{}, {r.clientGuest, r.serverGuest}, {r.clientGuest, ""}, {"", r.serverGuest}} {
		p.Arms = append(p.Arms, load.Arm{
			Name: string(rune('a' + i)), ServerPort: 7100, ClientPort: 8100,
			Ends: []load.Pair{{From: end(byte(1+i), agents[0]), To: end(byte(11+i), agents[1])}},
		})
	}
	for i := range rounds {
		p.Schedule = append(p.Schedule, [][]int{{0, 1, 2, 3}, {3, 1, 0, 2}, {2, 3, 1, 0}}[i%3])
	}
	return p
}

// TestGuests: an arm whose ends are in virtual machines is measured as one on
// the machines themselves, in the order of the plan.
func TestGuests(t *testing.T) {
	r := newRing(t)
	for _, name := range []string{"tcp_lat", "udp_lat", "tcp_bw", "udp_bw"} {
		t.Run(name, func(t *testing.T) {
			p := r.plan(name, 3)
			if shut, err := r.server.Serve(t.Context(), p, []string{"tcp", "udp", "links"}); err != nil || len(shut) > 0 {
				t.Fatal(err, shut)
			}
			results, near, err := r.client.Run(t.Context(), p, []string{"cpu", "tcp", "udp"})
			if err != nil {
				t.Fatal(err)
			}
			far, err := r.server.Finish(t.Context(), p.Token)
			if err != nil {
				t.Fatal(err)
			}
			at := 0
			for round, order := range p.Schedule {
				for _, arm := range order {
					checkSlice(t, results[at], arm, round)
					at++
				}
			}
			if at != len(results) {
				t.Errorf("%d slices, want %d", len(results), at)
			}
			seen := map[string]int{}
			for _, m := range near {
				seen["near "+m.Arm+" "+m.Name]++
				if strings.HasPrefix(name, m.Name) && m.Values[m.Name+"/in_segments"]+m.Values[m.Name+"/in_datagrams"] == 0 {
					t.Errorf("%s of %s saw nothing", m.Name, m.Arm)
				}
			}
			for _, m := range far {
				seen["far "+m.Arm+" "+m.Name]++
			}
			for _, arm := range []string{"a", "b", "c", "d"} {
				for _, m := range []string{"near " + arm + " cpu", "near " + arm + " tcp", "near " + arm + " udp", "far " + arm + " tcp", "far " + arm + " udp"} {
					if seen[m] != 1 {
						t.Errorf("%s came %d times", m, seen[m])
					}
				}
			}
		})
	}
}

// checkSlice wants a slice with a figure that lost nothing.
func checkSlice(t *testing.T, s load.SliceResult, arm, round int) {
	t.Helper()
	switch {
	case s.Arm != arm || s.Round != round || s.Err != nil || s.Elapsed <= 0:
		t.Errorf("slice %d of round %d, want %d of %d: %+v", s.Arm, s.Round, arm, round, s)
	case s.Latency != nil && (s.Latency.Replies == 0 || s.Latency.Requests != s.Latency.Replies+s.Latency.Lost):
		t.Errorf("books do not balance: %+v", s.Latency)
	case s.Stream != nil && (s.Stream.RecvMessages == 0 || s.Stream.SentMessages < s.Stream.RecvMessages):
		t.Errorf("books do not balance: %+v", s.Stream)
	case (s.Latency == nil) == (s.Stream == nil):
		t.Errorf("slice has no figure: %+v", s)
	}
	if age := time.Since(s.Start); age < 0 || age > time.Minute {
		t.Errorf("slice began %v ago", age)
	}
}

// TestGuestDies leaves out the arms of a virtual machine that ends in
// mid-series, with the reason, and measures all others to their end.
func TestGuestDies(t *testing.T) {
	plain.SkipShort(t)
	t.Parallel() // it waits
	// On a busy machine its arms may not have been measured by then: the next one is killed later, and
	// still long before the series could end.
	for _, after := range []time.Duration{time.Second, 3 * time.Second, 6 * time.Second} {
		if killGuest(t, after) {
			return
		}
	}
	t.Error("no arm of a virtual machine was measured before it ended")
}

// killGuest kills a virtual machine's agent after a time. It tells whether its arms were measured before.
func killGuest(t *testing.T, after time.Duration) bool {
	t.Helper()
	r := newRing(t)
	p := r.plan("probe", 200)
	if shut, err := r.server.Serve(t.Context(), p, nil); err != nil || len(shut) > 0 {
		t.Fatal(err, shut)
	}
	timer := time.AfterFunc(after, func() { r.nearProcess.Kill() })
	defer timer.Stop()
	results, _, err := r.client.Run(t.Context(), p, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.server.Finish(t.Context(), p.Token); err != nil {
		t.Error(err)
	}
	good, failed := map[int]int{}, map[int]error{}
	for _, s := range results {
		if failed[s.Arm] != nil {
			t.Errorf("arm %d was measured after it had failed", s.Arm)
		}
		if s.Err != nil {
			failed[s.Arm] = s.Err
		} else {
			good[s.Arm]++
		}
	}
	if good[1] == 0 || good[2] == 0 {
		return false
	}
	for arm, inGuest := range []bool{false, true, true, false} {
		switch {
		case !inGuest && good[arm] != len(p.Schedule):
			t.Errorf("arm %d has %d slices, want %d: %v", arm, good[arm], len(p.Schedule), failed[arm])
		case inGuest && (failed[arm] == nil || !strings.Contains(failed[arm].Error(), "in the virtual machine: lost the agent")):
			t.Errorf("arm %d has %d slices, then %v", arm, good[arm], failed[arm])
		}
	}
	return true
}

// TestNoGuest: a virtual machine that is not there costs its arms, nothing else.
func TestNoGuest(t *testing.T) {
	near, _ := spawn(t, "agent")
	far, _ := spawn(t, "agent")
	nowhere := testenv.SocketFolder(t) + "/no"
	p := ring{client: near, server: far, clientGuest: "/tmp/no", serverGuest: nowhere}.plan("tcp_lat", 2)
	shut, err := far.Serve(t.Context(), p, nil)
	if err != nil || len(shut) != 2 || shut[1] == nil || shut[3] == nil {
		t.Fatal(err, shut)
	}
	p.Schedule = [][]int{{0, 2}, {2, 0}}
	results, _, err := near.Run(t.Context(), p, nil)
	if err != nil || len(results) != 3 || results[1].Arm != 2 || !strings.Contains(results[1].Err.Error(), "is open to others") {
		t.Errorf("%v, %+v", err, results)
	}
	if _, err := far.Finish(t.Context(), p.Token); err != nil {
		t.Error(err)
	}
}
