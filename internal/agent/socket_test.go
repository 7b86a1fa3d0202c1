package agent_test

import (
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/agent"
	"github.com/venturi-net/venturi/internal/testenv"
)

func TestSocketIsPrivate(t *testing.T) {
	_, socket := start(t, endless())
	info, err := os.Stat(socket)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("socket has mode %#o, want 0600", info.Mode().Perm())
	}
}

func TestUmaskIsPutBack(t *testing.T) {
	before := syscall.Umask(0o022)
	defer syscall.Umask(before)
	l, err := agent.Listen(filepath.Join(testenv.SocketFolder(t), "s"))
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if now := syscall.Umask(0o022); now != 0o022 {
		t.Errorf("umask is %#o after listen, want 022", now)
	}
}

func TestListenRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(dir string) error
		want    string
	}{
		"folder open to others": {func(d string) error { return os.Chmod(d, 0o755) }, "open to others"},
		"folder open to group":  {func(d string) error { return os.Chmod(d, 0o710) }, "open to others"},
		"no folder":             {os.Remove, "no such file"},
		"a file in its place":   {func(d string) error { return os.WriteFile(filepath.Join(d, "s"), nil, 0o600) }, "not a socket"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := testenv.SocketFolder(t)
			if err := tc.prepare(dir); err != nil {
				t.Fatal(err)
			}
			l, err := agent.Listen(filepath.Join(dir, "s"))
			if err == nil {
				l.Close()
				t.Fatal("listened")
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %q does not say %q", err, tc.want)
			}
		})
	}
}

func TestSecondAgentIsRefused(t *testing.T) {
	c, socket := start(t, endless())
	if err := agent.Main(t.Context(), agent.Options{Machine: "m2", Socket: socket}); err == nil {
		t.Fatal("a second agent took the socket over")
	}
	if _, _, err := c.Facts(t.Context(), nil); err != nil {
		t.Errorf("the first agent no longer answers: %v", err)
	}
}

func TestSocketOfKilledAgentIsReplaced(t *testing.T) {
	socket := filepath.Join(testenv.SocketFolder(t), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	next, err := agent.Listen(socket)
	if err != nil {
		t.Fatalf("did not replace the old socket: %v", err)
	}
	next.Close()
}

func TestPeerIsKnown(t *testing.T) {
	socket := filepath.Join(testenv.SocketFolder(t), "s")
	l, err := agent.ListenClosed(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	uid, err := agent.Peer(c.(*net.UnixConn))
	if err != nil || int(uid) != os.Geteuid() {
		t.Errorf("peer gave user %d, %v; want %d", uid, err, os.Geteuid())
	}
}

func TestWrongPeerIsHungUpOn(t *testing.T) {
	socket := filepath.Join(testenv.SocketFolder(t), "s")
	l, err := agent.ListenClosed(socket)
	if err != nil {
		t.Fatal(err)
	}
	allowed := make(chan bool, 2)
	allowed <- false
	allowed <- true
	g := agent.Guard(l, func(uint32) bool { return <-allowed })
	defer g.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		c, _ := g.Accept()
		accepted <- c
	}()
	first, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	first.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := first.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the refused peer read %v, want EOF", err)
	}
	second, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if c := waitFor(t, "accept", accepted); c != nil {
		c.Close()
	}
}

// TestStrangerIsRefused takes the first wall down (folder and socket open to
// all) and shows that the second still holds: a process of another user gets
// no answer from a real agent.
func TestStrangerIsRefused(t *testing.T) {
	testenv.Root(t)
	c, socket := start(t, endless())
	dir := filepath.Dir(socket)
	program := filepath.Join(dir, "stranger")
	exe, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []error{
		os.WriteFile(program, exe, 0o755), os.Chmod(program, 0o755), os.Chmod(dir, 0o755), os.Chmod(socket, 0o666),
	} {
		if step != nil {
			t.Fatal(step)
		}
	}
	args := testenv.RoleCommand(t, "stranger")
	for uid, want := range map[uint32]string{0: "answered", 65534: "refused"} {
		cmd := exec.Command(program, append(args[1:], socket)...)
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("user %d: %v: %s", uid, err, out)
		}
		if string(out) != want {
			t.Errorf("user %d was %q, want %q", uid, out, want)
		}
	}
	if _, _, err := c.Facts(t.Context(), nil); err != nil {
		t.Errorf("the agent no longer answers its own user: %v", err)
	}
}

// playStranger says whether the agent answers it.
func playStranger(args []string) int {
	socket := args[len(args)-1]
	c, err := net.Dial("unix", socket)
	if err != nil {
		os.Stdout.WriteString("could not even connect: " + err.Error())
		return 0
	}
	c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	answer := "refused"
	if client, err := agent.Dial(ctx, socket); err == nil {
		client.Close()
		answer = "answered"
	}
	os.Stdout.WriteString(answer)
	return 0
}
