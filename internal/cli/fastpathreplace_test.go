package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath/node"
	"github.com/venturi-net/venturi/internal/fastpath/shadow"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/verr"
)

// A process that takes over goes on with the options of the one before it, unless it is given others, and serves metrics at
// the same address. Of another program it does not expect that it frees one.
func TestFastpathReplacesWithSameOptions(t *testing.T) {
	w, n := emptyNode(t)
	wirePods(t, w, n)
	start := func(said io.Writer, args ...string) *exec.Cmd { return startFastpath(t, n, said, args...) }
	t.Cleanup(func() { testenv.Must(t, start(t.Output(), "disable").Wait()) })
	var running *exec.Cmd
	at := netip.MustParseAddrPort("127.0.0.1:9138")
	for _, c := range []struct {
		args        []string
		keep        []string
		noNAT, ipv6 bool
	}{
		{[]string{"--keep-counters=conntrack"}, []string{"conntrack"}, false, false},
		{[]string{"--replace", "--nat=false"}, []string{"conntrack"}, true, false},
		{[]string{"--replace", "--keep-counters", "--ipv6"}, []string{"conntrack", "rules"}, true, true},
		{[]string{"--replace", "--keep-counters=none"}, nil, true, true},
		{[]string{"--replace", "--nat", "--ipv6=false"}, nil, false, false},
	} {
		carries := make(awaited, 1)
		next := start(io.MultiWriter(t.Output(), carries), append([]string{"enable", "--shadow", "0", "--listen", at.String()}, c.args...)...)
		t.Cleanup(func() { _ = next.Process.Kill(); _ = next.Wait() }) // if it has not ended below
		select {
		case <-carries:
		case <-time.After(testenv.Timeout):
			t.Fatalf("after %v, enable %v does not carry", testenv.Timeout, c.args)
		}
		if running != nil {
			testenv.Must(t, running.Wait())
		}
		running = next
		for end := time.Now().Add(testenv.Timeout); ; time.Sleep(20 * time.Millisecond) { // it says so before it writes it
			var s node.Status
			testenv.InNetns(t, n.Path(), func() (err error) {
				s, err = node.ReadStatus()
				return err
			})
			if s.Running && s.State.Counters != nil && slices.Equal(s.Config.KeepCounters, c.keep) && s.Config.NoNAT == c.noNAT && (s.IPv6 != nil) == c.ipv6 && host.ListensAt(next.Process.Pid, at) {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("enable %v: it has %+v; want %+v; %+v; it listens: %v", c.args, s.Config, c, s.State, host.ListensAt(next.Process.Pid, at))
			}
		}
	}
	for _, other := range []string{"127.0.0.1:9139", "127.0.0.2:9138"} {
		testenv.InNetns(t, n.Path(), func() error {
			l, err := net.Listen("tcp", other)
			if err == nil {
				t.Cleanup(func() { _ = l.Close() })
			}
			return err
		})
		var said bytes.Buffer
		ended := new(exec.ExitError)
		if err := start(&said, "enable", "--replace", "--listen", other).Wait(); !errors.As(err, &ended) || ended.ExitCode() != verr.Failed || !strings.Contains(said.String(), "address already in use") || strings.Contains(said.String(), "are served") {
			t.Errorf("at %s, where another program listens, it ended with %v, and said %s", other, err, &said)
		}
	}
	testenv.Must(t, running.Process.Signal(syscall.SIGTERM))
	testenv.Must(t, running.Wait())
}

// A process that takes over carries what the one before it was asked to, also what that could not carry.
func TestFastpathReplacesWithSameChoice(t *testing.T) {
	for _, forwarding := range []string{"ipv4/ip_forward", "ipv6/conf/all/forwarding"} {
		t.Run(forwarding, func(t *testing.T) {
			w, n := emptyNode(t)
			wirePods(t, w, n)
			start := func(said io.Writer, args ...string) *exec.Cmd { return startFastpath(t, n, said, args...) }
			t.Cleanup(func() { testenv.Must(t, start(t.Output(), "disable").Wait()) })
			enable := func(args ...string) *exec.Cmd {
				carries := make(awaited, 1)
				cmd := start(io.MultiWriter(t.Output(), carries), append([]string{"enable", "--shadow", "0"}, args...)...)
				t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }) // if it has not ended below
				select {
				case <-carries:
				case <-time.After(testenv.Timeout):
					t.Fatalf("after %v, enable %v does not carry", testenv.Timeout, args)
				}
				return cmd
			}
			testenv.Shell(t, n.Path(), "echo 0 > /proc/sys/net/"+forwarding)
			first := enable("--ipv6", "--nat=false", "--keep-counters=conntrack")
			testenv.Shell(t, n.Path(), "echo 1 > /proc/sys/net/"+forwarding)
			second := enable("--replace")
			testenv.Must(t, first.Wait())
			for end := time.Now().Add(testenv.Timeout); ; time.Sleep(20 * time.Millisecond) {
				var s node.Status
				testenv.InNetns(t, n.Path(), func() (err error) {
					s, err = node.ReadStatus()
					return err
				})
				keeps := func(s *node.Status) bool {
					return s != nil && s.Config != nil && slices.Equal(s.Config.KeepCounters, []string{"conntrack"})
				}
				if keeps(&s) && s.Config.NoNAT && keeps(s.IPv6) {
					break
				}
				if time.Now().After(end) {
					t.Fatalf("it carries %+v, and of IPv6 %+v", s.Config, s.IPv6)
				}
			}
			testenv.Must(t, second.Process.Signal(syscall.SIGTERM))
			testenv.Must(t, second.Wait())
		})
	}
}

// Who has taken over goes on, without metrics, if another program has their address.
func TestFastpathReplacesWithoutMetrics(t *testing.T) {
	testenv.Root(t)
	folder := nodeFolder(t, "/proc/self/ns/net")
	held, err := os.Open(folder) // as the process that carries does
	testenv.Must(t, err)
	defer held.Close()
	testenv.Must(t, netcfg.ReplaceJSON(filepath.Join(folder, "process"), os.Getpid()))
	other, err := net.Listen("tcp", "127.0.0.1:0")
	testenv.Must(t, err)
	defer other.Close()
	at, err := newMetricsListener(other.Addr().String())
	testenv.Must(t, err)
	wait := replacedWait
	replacedWait = listenPoll
	t.Cleanup(func() { replacedWait = wait })
	said, err := os.Create(filepath.Join(t.TempDir(), "said"))
	testenv.Must(t, err)
	defer said.Close()
	serving, stop, err := serveNode(t.Context(), &Env{Stderr: said}, &at, true)
	testenv.Must(t, err)
	awaitText(t, said.Name(), "\nventuri: the fast path goes on without metrics\n")
	if err := errors.Join(context.Cause(serving), stop()); err != nil {
		t.Errorf("the fast path ends: %v", err)
	}
}

// A shadow that is taken over from says what it has compared, and that it has ended early. What it was told to compare
// is not what is carried.
func TestFastpathReplacesShadow(t *testing.T) {
	w, n := emptyNode(t)
	wirePods(t, w, n)
	t.Cleanup(func() { testenv.Must(t, startFastpath(t, n, t.Output(), "disable").Wait()) })
	status := func() (s node.Status) {
		testenv.InNetns(t, n.Path(), func() (err error) {
			s, err = node.ReadStatus()
			return err
		})
		return s
	}
	var out, said bytes.Buffer
	comparing := exec.Command("venturi", "fastpath", "shadow", "--nat=false", "--json")
	comparing.Stdout, comparing.Stderr = &out, io.MultiWriter(&said, t.Output())
	testenv.Must(t, host.Do(n.Path(), comparing.Start))
	t.Cleanup(func() { _ = comparing.Process.Kill(); _ = comparing.Wait() }) // if it has not ended below
	for end := time.Now().Add(testenv.Timeout); ; time.Sleep(20 * time.Millisecond) {
		s := status()
		if s.Running && s.State != nil && s.State.Pods == 2 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("after %v: %+v", testenv.Timeout, s)
		}
	}
	carries := make(awaited, 1)
	next := startFastpath(t, n, io.MultiWriter(t.Output(), carries), "enable", "--replace", "--shadow", "0")
	t.Cleanup(func() { _ = next.Process.Kill(); _ = next.Wait() }) // as above
	select {
	case <-carries:
	case <-time.After(testenv.Timeout):
		t.Fatalf("after %v, it does not carry", testenv.Timeout)
	}
	if c := status().Config; c == nil || c.NoNAT || c.Shadow {
		t.Errorf("it carries by %+v", c)
	}
	ended := new(exec.ExitError)
	if err := comparing.Wait(); !errors.As(err, &ended) || ended.ExitCode() != verr.Busy {
		t.Errorf("the shadow ended with %v, want exit code %d", err, verr.Busy)
	}
	var found shadow.Result
	testenv.Must(t, json.Unmarshal(out.Bytes(), &found))
	if text := said.String(); !strings.Contains(text, "\n  why: another process has taken over") || !strings.Contains(text, "\n  do:  ") {
		t.Errorf("it said\n%s", text)
	}
	testenv.Must(t, next.Process.Signal(syscall.SIGTERM))
	testenv.Must(t, next.Wait())
}

// A user who would take over is told that it takes root, not that somebody else's files cannot be read.
func TestFastpathReplaceTakesRoot(t *testing.T) {
	_, n := emptyNode(t)
	nodeFolder(t, n.Path())
	testenv.Must(t, letNobodyRun())
	command := asNobody("venturi", "fastpath", "enable", "--replace")
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdout = t.Output()
	var said bytes.Buffer
	cmd.Stderr = &said
	ended := new(exec.ExitError)
	if err := host.Do(n.Path(), cmd.Run); !errors.As(err, &ended) || ended.ExitCode() != verr.Permission || !strings.Contains(said.String(), "only root") {
		t.Errorf("it ended with %v, want exit code %d\n%s", err, verr.Permission, &said)
	}
}

// nodeFolder makes the folder of the fast path of a network namespace.
func nodeFolder(t *testing.T, netns string) (folder string) {
	t.Helper()
	id, err := host.ID(netns)
	testenv.Must(t, err)
	folder = filepath.Join(node.Root, strconv.FormatUint(id.Ino, 10))
	testenv.Must(t, os.MkdirAll(folder, 0o700))
	t.Cleanup(func() {
		testenv.Must(t, os.RemoveAll(folder))
		_ = os.Remove(node.Root) // fails if somebody else's is there
	})
	return folder
}

// awaitText waits until a file has a text.
func awaitText(t *testing.T, file, want string) {
	t.Helper()
	for end := time.Now().Add(testenv.Timeout); ; time.Sleep(20 * time.Millisecond) {
		text, err := os.ReadFile(file)
		testenv.Must(t, err)
		if strings.Contains(string(text), want) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("after %v, it has said %q, and not %q", testenv.Timeout, text, want)
		}
	}
}

// startFastpath starts a command of the fast path on a node.
func startFastpath(t *testing.T, n *netcfg.Namespace, said io.Writer, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("venturi", append([]string{"fastpath"}, args...)...)
	cmd.Stderr = said
	testenv.Must(t, host.Do(n.Path(), cmd.Start))
	return cmd
}
