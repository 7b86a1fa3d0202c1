package remote_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/remote"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/verr"
)

func open(t *testing.T, m *testenv.SSHMachine, change func(*remote.Options)) (*remote.Process, error) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o := remote.Options{Program: program, SSH: m.SSH}
	if change != nil {
		change(&o)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	return remote.Open(ctx, remote.Machine{Name: "a", Host: m.Name}, o)
}

// says sends a text through the stream, and wants it back.
func says(t *testing.T, s *remote.Process, text string) {
	t.Helper()
	if _, err := io.WriteString(s, text); err != nil {
		t.Fatalf("write: %v", err)
	}
	_ = s.SetReadDeadline(time.Now().Add(20 * time.Second))
	back := make([]byte, len(text))
	if _, err := io.ReadFull(s, back); err != nil || string(back) != text {
		t.Fatalf("read %q, %v, want %q", back, err, text)
	}
}

// leftovers lists the files of ours on a machine.
func leftovers(t *testing.T, m *testenv.SSHMachine) (files []string) {
	t.Helper()
	for _, folder := range []string{"run", "tmp", "var/tmp", "dev/shm", "root"} {
		found, err := filepath.Glob(filepath.Join(m.Root(), folder, "venturi*"))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	return files
}

// nothingLeft waits until no process of ours is on the machine.
func nothingLeft(t *testing.T, m *testenv.SSHMachine) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		left := m.Processes()
		if len(left) == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("still running after 20 s: %v", left)
		}
	}
	if files := leftovers(t, m); len(files) > 0 {
		t.Errorf("left behind: %q", files)
	}
}

func TestCopy(t *testing.T) {
	m := testenv.NewSSHMachine(t, "copied")
	s, err := open(t, m, nil)
	if err != nil {
		t.Fatal(err)
	}
	if files := leftovers(t, m); len(files) > 0 {
		t.Errorf("while it runs there are %q", files)
	}
	says(t, s, "hello\n")
	if s.Copied == 0 || s.RunsAs != "root" {
		t.Errorf("copied %d bytes, as %s", s.Copied, s.RunsAs)
	}
	_ = s.Close()
	nothingLeft(t, m)
}

// Who is not root becomes it by sudo, or is told so before anything is copied.
func TestUser(t *testing.T) {
	m, closed := testenv.NewSSHMachine(t, "sudo"), testenv.NewSSHMachine(t, "nosudo")
	closed.AddUser(t, "deploy", false)
	refuse := func(m *testenv.SSHMachine, machine remote.Machine, why string) {
		t.Helper()
		program, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		machine.Name, machine.Host, machine.User = "a", m.Name, "deploy"
		s, err := remote.Open(t.Context(), machine, remote.Options{Program: program, SSH: m.SSH})
		if err == nil {
			_ = s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), why) || verr.Code(err) != verr.Permission {
			t.Errorf("error %v, want one with %q", err, why)
		}
		nothingLeft(t, m)
	}
	refuse(closed, remote.Machine{}, "NOPASSWD")
	m.AddUser(t, "deploy", true)
	refuse(m, remote.Machine{NoSudo: true}, "sudo is not allowed")
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s, err := remote.Open(t.Context(), remote.Machine{Name: "a", Host: m.Name, User: "deploy"}, remote.Options{Program: program, SSH: m.SSH})
	if err != nil {
		t.Fatal(err)
	}
	if files := leftovers(t, m); s.RunsAs != "sudo" || len(files) > 0 {
		t.Errorf("it runs as %s, files %q", s.RunsAs, files)
	}
	says(t, s, "hello\n")
	_ = s.Close()
	nothingLeft(t, m)
}

// Who need not be root is let in, and does not become root where that is not allowed.
func TestAnyUser(t *testing.T) {
	m := testenv.NewSSHMachine(t, "any")
	m.AddUser(t, "deploy", true)
	for as, machine := range map[string]remote.Machine{"sudo": {}, "user": {NoSudo: true}} {
		machine.Name, machine.Host, machine.User = "a", m.Name, "deploy"
		s, err := remote.Open(t.Context(), machine, remote.Options{Program: testenv.Program(t)[0], SSH: m.SSH, AnyUser: true})
		if err != nil {
			t.Fatal(err)
		}
		says(t, s, "hello\n")
		if s.RunsAs != as {
			t.Errorf("it runs as %s, want %s", s.RunsAs, as)
		}
		root := false
		for pid, command := range m.Processes() {
			info, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
			if err == nil && strings.Contains(command, "venturi agent --stdio") && !strings.HasPrefix(command, "sudo") {
				root = root || info.Sys().(*syscall.Stat_t).Uid == 0
			}
		}
		if root != (as == "sudo") {
			t.Errorf("as %s: an agent of root's: %v", as, root)
		}
		_ = s.Close()
		nothingLeft(t, m)
	}
}

// A killed controller closes nothing: its end of the stream just goes away.
func TestCutLeavesNothing(t *testing.T) {
	m := testenv.NewSSHMachine(t, "cut")
	s, err := open(t, m, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Conn.Close()
	nothingLeft(t, m)
	_ = s.Close()
}

func TestNoCopy(t *testing.T) {
	m := testenv.NewSSHMachine(t, "closed")
	_, err := open(t, m, func(o *remote.Options) { o.NoCopy = true })
	if err == nil || !strings.Contains(err.Error(), "--no-copy") {
		t.Errorf("error %v does not name --no-copy", err)
	}
	nothingLeft(t, m)
}

// A login shell that prints what it likes is passed over.
func TestNoise(t *testing.T) {
	m := testenv.NewSSHMachine(t, "noisy")
	m.Do(t, "mount", "-t", "tmpfs", "none", "/root")
	if err := os.WriteFile(filepath.Join(m.Root(), "root", ".bashrc"), []byte("echo welcome; echo more >&2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := open(t, m, nil)
	if err != nil {
		t.Fatal(err)
	}
	says(t, s, "hello\n")
	_ = s.Close()
	nothingLeft(t, m)
}

// The program that is there is not brought again.
func TestSameProgram(t *testing.T) {
	m := testenv.NewSSHMachine(t, "same")
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	m.Install(t, program)
	testenv.Must(t, os.Remove(m.Root()+testenv.InstalledSum)) // here it is to be reckoned
	for _, noCopy := range []bool{false, true} {
		s, err := open(t, m, func(o *remote.Options) { o.NoCopy = noCopy })
		if err != nil {
			t.Fatal(err)
		}
		says(t, s, "hello\n")
		if s.Copied != 0 {
			t.Errorf("%d bytes were copied", s.Copied)
		}
		_ = s.Close()
	}
	nothingLeft(t, m)
}

// Where every folder is closed to programs, the error says so, and nothing is left.
func TestNoFolderToRunIn(t *testing.T) {
	m := testenv.NewSSHMachine(t, "noexec")
	m.Remount(t, "noexec", "/run", "/tmp", "/var/tmp", "/dev/shm")
	m.Do(t, "mount", "-t", "tmpfs", "-o", "noexec", "none", "/root")
	_, err := open(t, m, nil)
	if err == nil || !strings.Contains(err.Error(), "noexec") {
		t.Errorf("error %v", err)
	}
	nothingLeft(t, m)
}

// A machine that this program does not run on is named, with what to do there.
func TestOtherProcessor(t *testing.T) {
	for system, want := range map[string]string{"Linux mips": "built for", "FreeBSD amd64": "not Linux"} {
		m := testenv.NewSSHMachine(t, "other")
		kind, arch, _ := strings.Cut(system, " ")
		script := fmt.Sprintf("#!/bin/sh\ncase $1 in -s) echo %s;; *) echo %s;; esac\n", kind, arch)
		testenv.Must(t, os.WriteFile(m.Root()+"/run/ssh/uname", []byte(script), 0o755))
		m.Do(t, "mount", "--bind", "/run/ssh/uname", "/usr/bin/uname")
		s, err := open(t, m, nil)
		if err == nil {
			_ = s.Close()
		}
		if verr.Code(err) != verr.Missing || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", system, err)
		}
		nothingLeft(t, m)
	}
}

// The user's own ssh configuration holds: a machine behind another one is reached by ProxyJump,
// and a connection that is open already is used and stays, by ControlMaster.
func TestOwnConfiguration(t *testing.T) {
	outer, inner := testenv.NewSSHMachine(t, "outer"), testenv.NewSSHMachine(t, "inner")
	testenv.Join(t, outer, inner)
	inner.ReachThrough(t, outer, "192.0.2.2")
	ssh := testenv.SSHCommand(t, outer, inner)
	config := filepath.Join(t.TempDir(), "own")
	testenv.Must(t, os.WriteFile(config, fmt.Appendf(nil, "Include %s\nHost inner\n  ControlMaster auto\n  ControlPersist yes\n  ControlPath %s\n",
		ssh[len(ssh)-1], filepath.Join(t.TempDir(), "c")), 0o600))
	ssh[len(ssh)-1] = config
	run := func(args ...string) error {
		return exec.Command(ssh[0], slices.Concat(ssh[1:], args)...).Run()
	}
	reach := func() {
		t.Helper()
		s, err := open(t, inner, func(o *remote.Options) { o.SSH = ssh })
		testenv.Must(t, err)
		says(t, s, "hello\n")
		_ = s.Close()
	}
	reach()
	if run("-O", "check", "inner") == nil {
		t.Error("a connection is left open")
	}
	nothingLeft(t, inner)
	testenv.Must(t, run("-f", "-N", "inner")) // the user's own, in the background
	t.Cleanup(func() { _ = run("-O", "exit", "inner") })
	sessions := len(inner.Processes())
	reach()
	testenv.Must(t, run("-O", "check", "inner"))
	if now := len(inner.Processes()); now > sessions {
		t.Errorf("%d processes on the machine, before %d", now, sessions)
	}
}

func TestUnreachable(t *testing.T) {
	m := testenv.NewSSHMachine(t, "there")
	_, err := remote.Open(t.Context(), remote.Machine{Name: "b", Host: "elsewhere"}, remote.Options{Program: "/proc/self/exe", SSH: append(m.SSH, "-o", "ProxyCommand=false")})
	if err == nil || !strings.Contains(err.Error(), "cannot reach machine b (elsewhere)") {
		t.Errorf("error %v", err)
	}
}
