package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/venturi-net/venturi/internal/analysis/recordtest"
	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/guest"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/agenttest"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

// reachLimitEnv is how long a venturi that plays a controller waits for a machine.
const reachLimitEnv = "VENTURI_TEST_REACH_LIMIT"

// leakChecked runs the tests of m and fails if they leave something behind.
type leakChecked struct{ m *testing.M }

func (l leakChecked) Run() int { return testenv.Run(l.m) }

// The scripts run this test binary under the name venturi.
func TestMain(m *testing.M) {
	if code, ok := guest.Main(os.Args, os.Stderr); ok {
		os.Exit(code)
	}
	if len(os.Args) > 1 && os.Args[1] == testenv.LineRole {
		os.Exit(testenv.PlaySSHLine(os.Args[1:]))
	}
	if len(os.Args) > 1 && os.Args[1] == agenttest.DriftRole {
		os.Exit(agenttest.PlayDrift(os.Args[1:]))
	}
	testscript.Main(leakChecked{m}, map[string]func(){"venturi": func() {
		reachLimit, _ = time.ParseDuration(os.Getenv(reachLimitEnv)) // 0: nobody gave one
		env := &Env{Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Getenv: os.Getenv, Environ: os.Environ, Exit: os.Exit}
		os.Exit(Run(context.Background(), env))
	}})
}

// TestScripts runs the command as a user does. Beside testscript's own
// commands a script has:
//
//	code N PROGRAM...   run a program that must end with exit code N
//	nobody N PROGRAM... the same, as a user without privileges
//	errors              the last standard error must be one three-part error
//	sshmachines A B     two machines that are joined by a wire, 192.0.2.1 and 192.0.2.2, and
//	                    reached by $SSH and by the command ssh; they have the program, unless
//	                    a third word, bare, says that each command must bring it
//
// the conditions fast and long,
// and in its folder await.sh, bzImage (the head of a kernel's file) and the runs good, cut (no end), bare (cut before its plan),
// newer, damaged and foreign.
func TestScripts(t *testing.T) { testscript.Run(t, params("testdata/script")) }

// TestLabScripts runs those that raise a lab: as root, and one after the
// other, because runs that measure exclude each other.
func TestLabScripts(t *testing.T) {
	testenv.Root(t)
	runOneByOne(t, params("testdata/script/lab"))
}

func params(dir string) testscript.Params {
	return testscript.Params{
		Dir:                 dir,
		Setup:               setup,
		Condition:           condition,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"code":        func(ts *testscript.TestScript, _ bool, args []string) { code(ts, args[0], args[1:]) },
			"nobody":      runAsNobody,
			"sshmachines": sshMachines,
			"errors":      threeParts,
			"json":        positiveNumbers,
		},
	}
}

// positiveNumbers wants the last command's output to be JSON with a number above 0 at each path, such
// as end.streams.0.bytes.
func positiveNumbers(ts *testscript.TestScript, _ bool, args []string) {
	text := ts.ReadFile("stdout")
	var whole any
	if err := json.Unmarshal([]byte(text), &whole); err != nil {
		ts.Fatalf("the output is no JSON: %v\n%s", err, text)
	}
	for _, path := range args {
		at := whole
		for _, key := range strings.Split(path, ".") {
			switch v := at.(type) {
			case map[string]any:
				at = v[key]
			case []any:
				n, err := strconv.Atoi(key)
				at = nil
				if err == nil && n < len(v) {
					at = v[n]
				}
			default:
				at = nil
			}
		}
		if n, ok := at.(float64); !ok || n <= 0 {
			ts.Fatalf("%s is %v, not a number above 0:\n%s", path, at, text)
		}
	}
}

// sshMachines makes two machines of these names, which share nothing with this one but
// the kernel.
func sshMachines(ts *testscript.TestScript, _ bool, args []string) {
	t := ts.Value(testKey{}).(*testing.T)
	a, b := testenv.NewSSHMachine(t, args[0]), testenv.NewSSHMachine(t, args[1])
	testenv.Join(t, a, b)
	if !slices.Contains(args, "bare") {
		program, err := os.Executable()
		ts.Check(err)
		a.Install(t, program)
		b.Install(t, program)
	}
	command := strings.Join(testenv.SSHCommand(t, a, b), " ")
	ts.Setenv("SSH", command)
	program, err := exec.LookPath("ssh")
	ts.Check(err)
	_, options, _ := strings.Cut(command, " ")
	folder := ts.MkAbs("ssh-command")
	ts.Check(os.Mkdir(folder, 0o755))
	ts.Check(os.WriteFile(filepath.Join(folder, "ssh"), fmt.Appendf(nil, "#!/bin/sh\nexec %s %s \"$@\"\n", program, options), 0o755))
	ts.Setenv("PATH", folder+string(os.PathListSeparator)+ts.Getenv("PATH"))
}

// testKey is under which a script's values have its test.
type testKey struct{}

// condition knows fast, that this kernel has what a fast path is made of, long, that tests run
// in full size, and cores, that there are cores 0 and 1.
func condition(name string) (bool, error) {
	switch name {
	case "long":
		return testenv.Long(), nil
	case "cores": // of which two machines have one each
		cpus, err := host.AllowedCPUs()
		return len(cpus) > 1 && cpus[0] == 0 && cpus[1] == 1, err
	}
	if name != "fast" {
		return false, fmt.Errorf("there is no condition %q", name)
	}
	answer, err := feature.Programs.Ask()
	if answer == feature.Unknown {
		return false, err
	}
	return answer == feature.Yes, nil
}

// oneByOne is a test whose scripts do not run at the same time.
type oneByOne struct{ *testing.T }

// runOneByOne ends a command of a script, with what it said, before go test ends
// the whole package.
func runOneByOne(t *testing.T, p testscript.Params) {
	t.Helper()
	p.Deadline, _ = t.Deadline()
	prepare := p.Setup
	p.Setup = func(env *testscript.Env) error {
		env.Values[testKey{}] = t
		return prepare(env)
	}
	testscript.RunT(oneByOne{t}, p)
}

func (o oneByOne) Parallel()     {}
func (o oneByOne) Verbose() bool { return testing.Verbose() }
func (o oneByOne) Run(name string, fn func(testscript.T)) {
	o.T.Run(name, func(t *testing.T) { fn(oneByOne{t}) })
}

func code(ts *testscript.TestScript, want string, command []string) {
	n, err := strconv.Atoi(want)
	ts.Check(err)
	got := 0
	if err := ts.Exec(command[0], command[1:]...); err != nil {
		exit := new(exec.ExitError)
		if !errors.As(err, &exit) {
			ts.Fatalf("run %v: %v", command, err)
		}
		got = exit.ExitCode()
	}
	if got != n {
		ts.Fatalf("exit code %d, want %d, stderr: %s", got, n, ts.ReadFile("stderr"))
	}
}

func runAsNobody(ts *testscript.TestScript, _ bool, args []string) {
	code(ts, args[0], asNobody(args[1:]...))
}

// threeParts holds the promise that every error says what failed, why, and
// what to do; and that it says so once.
func threeParts(ts *testscript.TestScript, _ bool, _ []string) {
	text := strings.TrimSuffix(ts.ReadFile("stderr"), "\n")
	lines := strings.Split(text, "\n")
	if len(lines) < 3 {
		ts.Fatalf("not an error in three parts: %q", text)
	}
	lines = lines[len(lines)-3:] // progress may come before it
	for i, prefix := range []string{"venturi: ", "  why: ", "  do:  "} {
		if rest, ok := strings.CutPrefix(lines[i], prefix); !ok || strings.TrimSpace(rest) == "" {
			ts.Fatalf("not an error in three parts: %q", text)
		}
	}
}

// awaitFile has what scripts wait with.
const awaitFile = "await.sh"

// letNobodyRun lets a user without privileges reach the program, and the folder that it is in.
func letNobodyRun() error {
	venturi, err := exec.LookPath("venturi")
	if err != nil {
		return err
	}
	for dir := filepath.Dir(venturi); dir != filepath.Clean(os.TempDir()) && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// asNobody is a command as a user without privileges runs it.
func asNobody(command ...string) []string {
	if os.Geteuid() == 0 {
		command = append([]string{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"}, command...)
	}
	return command
}

func setup(env *testscript.Env) error {
	if err := letNobodyRun(); err != nil {
		return err
	}
	await, err := os.ReadFile(filepath.Join("testdata", awaitFile))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(env.WorkDir, awaitFile), await, 0o644); err != nil {
		return err
	}
	good, err := goodRecord()
	if err != nil {
		return err
	}
	lines := strings.SplitAfter(good, "\n")
	runs := map[string]string{
		"good":    good,
		"cut":     good[:len(good)*2/3],
		"bare":    lines[0],
		"newer":   strings.Replace(good, `"version":1`, `"version":2`, 1),
		"damaged": strings.Replace(good, `"slice":`, `"slise":`, 1),
		"foreign": "Dear diary,\n",
	}
	for name, text := range runs {
		if err := os.MkdirAll(filepath.Join(env.WorkDir, name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(env.WorkDir, name, result.FileName), []byte(text), 0o644); err != nil {
			return err
		}
	}
	image := make([]byte, 4096)
	copy(image[0x202:], "HdrS")
	image[0x20f] = 4 // the release is at 0x400 and 0x200
	copy(image[0x600:], "6.1.0-test (somebody@host)")
	return os.WriteFile(filepath.Join(env.WorkDir, "bzImage"), image, 0o644)
}

// goodRecord is the text of a record that all scripts have: it is made once, because its histograms take a while.
var goodRecord = sync.OnceValues(func() (string, error) {
	return recordText(recordtest.Make(recordtest.Truth{
		Seed: 7, Series: 6, Rounds: 8, Noise: recordtest.Quiet, Histograms: true, Meters: true,
		Arms:  []recordtest.Arm{recordtest.Host(), recordtest.Copy(), recordtest.Path("vxlan", 1.4)},
		Cells: []result.Cell{recordtest.TCPLat},
	}))
})

func recordText(rec *result.Record) (string, error) {
	var text strings.Builder
	w := result.NewWriter(&text)
	for _, line := range recordtest.Lines(rec) {
		if err := w.Write(line); err != nil {
			return "", err
		}
	}
	return text.String(), nil
}

// Every exit code that verr knows is in the help.
func TestExitCodesTopic(t *testing.T) {
	want := []int{verr.OK, verr.Failed, verr.Usage, verr.Permission, verr.Missing, verr.Busy, verr.BadRecord, verr.Partial, verr.Findings, verr.Interrupted}
	if len(exitCodes) != len(want) {
		t.Fatalf("%d codes in the help, %d in verr", len(exitCodes), len(want))
	}
	for i, c := range exitCodes {
		if c.Code != want[i] || c.Text == "" {
			t.Errorf("line %d is %+v, want code %d", i, c, want[i])
		}
	}
}
