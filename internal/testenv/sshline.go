package testenv

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// SSHLine is what lies between ssh and a machine.
type SSHLine struct {
	Delay       time.Duration // of every byte, each way
	Open, Stall time.Duration // in turn bytes pass for so long, and none for so long; zero: always
	Phase       time.Duration // how much of that is over at the begin

	log string
}

// LineRole is the role of a test binary that plays a line, by [PlaySSHLine].
const LineRole = "sshline"

// Route puts a line between ssh and the machine, which the test binary plays.
func (m *SSHMachine) Route(t testing.TB, line SSHLine) *SSHLine {
	t.Helper()
	before, command, ok := strings.Cut(m.config, proxyCommand)
	if !ok {
		t.Fatalf("ssh machine %s has no ProxyCommand", m.Name)
	}
	program, err := os.Executable()
	Must(t, err)
	line.log = filepath.Join(t.TempDir(), "passed")
	m.config = before + proxyCommand + fmt.Sprintf("env %s=1 %s %s %v %v %v %v %s ", roleEnv, program, LineRole, line.Delay, line.Open, line.Stall, line.Phase, line.log) + command
	m.SSH = SSHCommand(t, m)
	return &line
}

// Passed is when bytes passed at the machine's end, either way.
func (l *SSHLine) Passed(t testing.TB) (at []time.Time) {
	t.Helper()
	text, err := os.ReadFile(l.log)
	Must(t, err)
	for line := range strings.Lines(string(text)) {
		var ns int64
		if _, err := fmt.Sscan(line, &ns); err != nil {
			t.Fatalf("read when bytes passed: %v", err)
		}
		at = append(at, time.Unix(0, ns))
	}
	return at
}

// PlaySSHLine runs the command behind its role and what describes a line, and passes its
// standard input and output on as the line does.
func PlaySSHLine(args []string) int {
	var l SSHLine
	for i, to := range []*time.Duration{&l.Delay, &l.Open, &l.Stall, &l.Phase} {
		var err error
		if *to, err = time.ParseDuration(args[1+i]); err != nil {
			return 2
		}
	}
	log, err := os.OpenFile(args[5], os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return 2
	}
	note := func() { fmt.Fprintln(log, time.Now().UnixNano()) }
	cmd := exec.Command(args[6], args[7:]...)
	cmd.Stderr = os.Stderr
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if inErr != nil || outErr != nil || cmd.Start() != nil {
		return 1
	}
	began := time.Now()
	go func() {
		l.relay(in, os.Stdin, began, nil, note)
		_ = in.Close()
	}()
	l.relay(os.Stdout, out, began, note, nil)
	if cmd.Wait() != nil {
		return 1
	}
	return 0
}

// relay copies what it reads, as late as the line makes it, and calls functions when something is
// read and before it is written.
func (l SSHLine) relay(to io.Writer, from io.Reader, began time.Time, read, write func()) {
	type part struct {
		text []byte
		due  time.Time
	}
	parts := make(chan part, 1<<16)
	go func() {
		defer close(parts)
		for {
			b := make([]byte, 64<<10)
			n, err := from.Read(b)
			if n > 0 {
				if read != nil {
					read()
				}
				parts <- part{b[:n], time.Now().Add(l.Delay)}
			}
			if err != nil {
				return
			}
		}
	}()
	for p := range parts {
		time.Sleep(time.Until(p.due))
		if l.Stall > 0 {
			if at := (time.Since(began) + l.Phase) % (l.Open + l.Stall); at > l.Open {
				time.Sleep(l.Open + l.Stall - at)
			}
		}
		if write != nil {
			write()
		}
		if _, err := to.Write(p.text); err != nil {
			return
		}
	}
}
