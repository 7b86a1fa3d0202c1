package testenv

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// DelaySSH makes every byte between ssh and the machine take that much longer, each way. The
// test binary plays the role "delay" for it, by [PlayDelay].
func (m *SSHMachine) DelaySSH(t testing.TB, by time.Duration) {
	t.Helper()
	const key = "  ProxyCommand "
	before, command, ok := strings.Cut(m.config, key)
	if !ok {
		t.Fatalf("ssh machine %s has no ProxyCommand", m.Name)
	}
	m.config = before + key + fmt.Sprintf("env %s=1 %s delay %v ", roleEnv, Program(t)[0], by) + command
	m.SSH = SSHCommand(t, m)
}

// PlayDelay runs the command behind its role and a duration, and passes its standard input
// and output on so much later.
func PlayDelay(args []string) int {
	by, err := time.ParseDuration(args[1])
	if err != nil {
		return 2
	}
	cmd := exec.Command(args[2], args[3:]...)
	cmd.Stderr = os.Stderr
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if inErr != nil || outErr != nil || cmd.Start() != nil {
		return 1
	}
	go func() {
		passLater(in, os.Stdin, by)
		_ = in.Close()
	}()
	passLater(os.Stdout, out, by)
	if cmd.Wait() != nil {
		return 1
	}
	return 0
}

// passLater copies what it reads, each part so long after it came.
func passLater(to io.Writer, from io.Reader, by time.Duration) {
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
				parts <- part{b[:n], time.Now().Add(by)}
			}
			if err != nil {
				return
			}
		}
	}()
	for p := range parts {
		time.Sleep(time.Until(p.due))
		if _, err := to.Write(p.text); err != nil {
			return
		}
	}
}
