package compare

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/remote"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

// requestOnVMs measures little between the first two machines.
func requestOnVMs(t *testing.T, m *VMMachines) Request {
	t.Helper()
	return Request{
		Paths: []string{"host"}, Loads: []string{"tcp_lat"}, Series: 3, Rounds: 3, Slice: 100 * time.Millisecond, Out: t.TempDir(),
		Remote: Remote{
			Machines: []remote.Machine{{Name: "a", Host: "va"}, {Name: "b", Host: "vb"}},
			Options:  remote.Options{Program: testenv.Program(t)[0], SSH: m.SSH, NoCopy: true, Limit: 10 * time.Minute},
		},
	}
}

// Two machines with kernels, clocks and process tables of their own.
func TestMachinesWithTheirOwnKernels(t *testing.T) {
	testenv.NeedsLong(t)
	m := NewVMMachines(t, 1<<10, "6.1", "6.12")
	m.Do(t, 1, "date -s '+1 day'")
	m.Do(t, 1, fmt.Sprintf("VENTURI_TEST_ROLE=1 %s drift", testenv.Program(t)[0]))
	rec, _, err := Do(t.Context(), resolve(t, requestOnVMs(t, m)), Host{Watch: deaf{}})
	if err != nil {
		t.Fatal(err)
	}
	a, b := rec.Facts[0], rec.Facts[1]
	if !strings.HasPrefix(a.Kernel, "6.1.") || !strings.HasPrefix(b.Kernel, "6.12.") || a.BootID == b.BootID || !a.Emulated {
		t.Errorf("the machines are %+v and %+v", a, b)
	}
	if day := 24 * time.Hour; time.Duration(b.ClockAhead-a.ClockAhead) < day-time.Hour || time.Duration(b.ClockAhead-a.ClockAhead) > day+time.Hour {
		t.Errorf("the clocks are %v and %v ahead", time.Duration(a.ClockAhead), time.Duration(b.ClockAhead))
	}
	checkSlices(t, rec)
}

// playDrift makes the clocks of this machine run 500 ppm too fast, which is all that the kernel
// allows.
func playDrift([]string) int {
	const ppm = 1 << 16 // in the kernel's unit
	if _, err := unix.Adjtimex(&unix.Timex{Modes: unix.ADJ_FREQUENCY, Freq: 500 * ppm}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// checkSlices sees that figures are those of real traffic: a clock that differs shows in none.
func checkSlices(t *testing.T, rec *result.Record) {
	t.Helper()
	replies := 0
	for _, s := range rec.Slices {
		if s.Latency == nil || s.Latency.Replies == 0 {
			continue
		}
		replies++
		if rtt := time.Duration(s.Latency.RTTMedian); rtt <= 0 || rtt > 10*time.Second {
			t.Errorf("a round trip of %s took %v", s.Arm, rtt)
		}
		if at := time.Duration(s.Start); at < -time.Minute || at > time.Hour {
			t.Errorf("a slice is said to have begun %v after the run", at)
		}
	}
	if all := len(rec.Plan.Arms) * 3 * 3; replies < all/2 {
		t.Errorf("%d of %d slices carried something", replies, all)
	}
}

// A machine that is started anew in mid-run is given up, and what was measured is reported.
func TestMachineIsReset(t *testing.T) {
	testenv.NeedsLong(t)
	m := NewVMMachines(t, 1<<10, "6.12", "6.1")
	q := requestOnVMs(t, m)
	q.Series = 200
	rec, _, err := Do(t.Context(), resolve(t, q), Host{Watch: &firstSeries{callback: func() { _ = m.Guests[1].Close() }}})
	if verr.Code(err) != verr.Partial || rec == nil || len(rec.Slices) == 0 {
		t.Errorf("error %v, record %v", err, rec != nil)
	}
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Second) {
		left := m.Do(t, 0, "ps -ef | grep '[a]gent --stdio' || true")
		if left == "" {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the other machine still runs %s", left)
		}
	}
}
