package compare

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/result"
)

// An ssh round trip of 200 ms, or an ssh that stalls for two seconds, to both machines, to one of
// them, or to one after the other, delays a run and changes no figure: as many slices are measured
// as by a fast one, none fails, each offers what its schedule says, none holds the line's delay,
// and while one runs nothing passes.
func TestSlowSSH(t *testing.T) {
	slow := testenv.SSHLine{Delay: 100 * time.Millisecond}
	// Lines may stall for two seconds, of the three in which an agent must answer. Beside other
	// tests a busy machine may take the rest.
	stalls := testenv.SSHLine{Open: 3 * time.Second, Stall: 1500 * time.Millisecond}
	if testenv.Long() {
		stalls.Stall = 2 * time.Second
	}
	later := stalls
	later.Phase = stalls.Open // it stalls as soon as the other one has
	for name, line := range map[string][2]testenv.SSHLine{
		"fast": {}, "200 ms": {slow, slow}, "both stall": {stalls, stalls}, "the client's stalls": {stalls, {}}, "the server's stalls": {{}, stalls}, "they stall in turn": {stalls, later},
	} {
		t.Run(name, func(t *testing.T) {
			if strings.Contains(name, "'s") || name == "both stall" {
				testenv.NeedsLong(t)
			}
			m := joined(t)
			var lines []*testenv.SSHLine
			for i, m := range m {
				lines = append(lines, m.Route(t, line[i]))
			}
			q := onCards(t, m, "host", "vxlan")
			q.Loads = []string{"probe", "tcp_lat"}
			const requests = 20 // of a slice of probe: 1000 a second, in 20 ms
			q.Rounds = 12       // long enough for the agents to be called on the way
			isStalling := line[0].Stall+line[1].Stall > 0
			if isStalling {
				q.Rounds, q.Loads = 60, q.Loads[:1] // and for a line to stall
			}
			rec, _, err := Do(t.Context(), resolve(t, q), Host{Watch: deaf{}})
			if err != nil {
				t.Fatal(err)
			}
			measured(t, rec)
			if all := len(rec.Plan.Arms) * len(q.Loads) * q.Series * q.Rounds; len(rec.Slices) != all {
				t.Errorf("%d slices of %d", len(rec.Slices), all)
			}
			pause := time.Duration(0) // the longest between two slices of a series
			took := map[string][]int64{}
			for i, s := range rec.Slices {
				if s.Failed != "" || s.Latency == nil {
					t.Errorf("a slice of %s in round %d failed: %s", s.Arm, s.Round, s.Failed)
				}
				if s.Latency == nil {
					continue
				}
				if strings.HasPrefix(s.Cell, "probe") && s.Latency.Requests != requests {
					t.Errorf("%s offered %d requests in round %d, and not %d", s.Arm, s.Latency.Requests, s.Round, requests)
				}
				took[s.Cell+" of "+s.Arm] = append(took[s.Cell+" of "+s.Arm], s.Latency.RTTMedian)
				if i > 0 && rec.Slices[i-1].Series == s.Series {
					pause = max(pause, time.Duration(s.Start-rec.Slices[i-1].Start-rec.Slices[i-1].Elapsed))
				}
			}
			if len(took) != len(rec.Plan.Arms)*len(q.Loads) {
				t.Errorf("there are figures of %v", slices.Sorted(maps.Keys(took)))
			}
			for of, all := range took { // a busy machine may hold up any one of them
				slices.Sort(all)
				if median := time.Duration(all[len(all)/2]); median >= 2*slow.Delay {
					t.Errorf("%s took %v", of, median)
				}
			}
			if isStalling && pause < 500*time.Millisecond {
				t.Errorf("the longest pause between two slices was %v: no line has stalled", pause)
			}
			silentInSlices(t, rec, lines)
			for _, m := range m {
				nothingLeft(t, m)
			}
		})
	}
}

// What the user's ssh and a machine's sshd send when nothing else passes, to keep a connection
// alive, does not pass beside a slice.
func TestSSHKeepalives(t *testing.T) {
	m := joined(t)
	var lines []*testenv.SSHLine
	for _, m := range m {
		lines = append(lines, m.Route(t, testenv.SSHLine{}))
		m.Do(t, "sh", "-c", "echo ClientAliveInterval 2 >>/run/ssh/config")
	}
	q := onCards(t, m, "host")
	q.Remote.Dev, q.Loads = "", q.Loads[:1]
	q.Slice, q.Rounds = 100*time.Millisecond, 15 // several seconds, in few slices
	ssh := slices.Clone(q.Remote.Options.SSH)
	config := filepath.Join(t.TempDir(), "own")
	testenv.Must(t, os.WriteFile(config, fmt.Appendf(nil, "Include %s\nHost *\n  ServerAliveInterval 1\n", ssh[len(ssh)-1]), 0o600))
	ssh[len(ssh)-1] = config
	q.Remote.Options.SSH = ssh
	rec, _, err := Do(t.Context(), resolve(t, q), Host{Watch: deaf{}})
	if err != nil {
		t.Fatal(err)
	}
	measured(t, rec)
	silentInSlices(t, rec, lines)
}

// silentInSlices wants no byte on the lines to the machines, which share a clock, while a slice
// runs. A line notes what it brings before an agent hears it, and what an agent says before the
// controller hears that, and so before slices go on: no note is late. Of a hundred slices two may have
// some bytes all the same: where a busy machine holds up a slice for 300 ms, agents are called.
func silentInSlices(t *testing.T, rec *result.Record, lines []*testenv.SSHLine) {
	t.Helper()
	ahead := map[string]time.Duration{} // what was taken for a difference of clocks
	for _, f := range rec.Facts {
		ahead[f.Machine] = time.Duration(f.ClockAhead)
	}
	client := map[string]string{}
	for _, arm := range rec.Plan.Arms {
		client[arm.Name] = arm.FromMachine
		if arm.FromMachine == "" {
			client[arm.Name] = rec.Facts[0].Machine
		}
	}
	for _, l := range lines {
		passed := l.Passed(t)
		if len(passed) < 10 {
			t.Fatalf("bytes passed %d times: the line was not used", len(passed))
		}
		var heard []string
		for _, s := range rec.Slices {
			from := rec.Header.Started.Add(time.Duration(s.Start) + ahead[client[s.Arm]])
			if i := slices.IndexFunc(passed, func(at time.Time) bool {
				return at.After(from) && at.Before(from.Add(time.Duration(s.Elapsed)))
			}); i >= 0 {
				heard = append(heard, fmt.Sprintf("%v after the begin of the slice of %s in round %d of series %d", passed[i].Sub(from), s.Arm, s.Round, s.Series))
			}
		}
		if len(heard) > max(1, len(rec.Slices)/50) {
			t.Errorf("bytes passed in %d of %d slices: %s", len(heard), len(rec.Slices), strings.Join(heard, "; "))
		}
	}
}
