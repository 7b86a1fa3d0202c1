package cluster

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// startLimit is how long a cluster may take to be ready, with its programs at hand.
const startLimit = 3 * time.Minute

// State is what a cluster that is up says about itself.
type State struct {
	Options
	Holder int // pid of the process that removes all when it is ended
	Keeper int // pid of the cluster's first process
	Nodes  []Node
	Server string        // the API server, from this machine
	CA     []byte        // its authority's certificate
	Token  string        // the administrator's
	Ready  time.Duration // how long it took to be ready
}

// Node is one node.
type Node struct {
	Name string
	IP   string
	PID  int // of its first process
}

// Hold raises a cluster, writes its state when it is ready, and removes it when ctx ends,
// when lifeline ends, or when this process is told to by a signal.
func Hold(ctx context.Context, o Options, lifeline io.Reader, say func(string)) (err error) {
	runtime.LockOSThread() // the keeper dies with the thread that started it
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	if lifeline != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		go func() {
			io.Copy(io.Discard, lifeline)
			cancel()
		}()
	}
	o, err = o.withDefaults()
	if err != nil {
		return err
	}
	p, err := fetchPrograms(ctx, say)
	if err != nil {
		return err
	}
	f := stateFolder(o.Name)
	if err := os.MkdirAll(string(f), 0o700); err != nil {
		return err
	}
	unlock, err := lockFile(f.lock())
	if err != nil {
		return fmt.Errorf("a cluster named %s is up: %w", o.Name, err)
	}
	defer unlock()
	if err := sweep(f, o.Name); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sweep(f, o.Name), os.RemoveAll(string(f))) }()
	return hold(ctx, f, setup{o, p}, say)
}

// setup is what the holder tells the keeper, and the keeper a node.
type setup struct {
	Options
	Programs programs
}

// hold is [Hold] with a folder of its own.
func hold(ctx context.Context, f folder, s setup, say func(string)) error {
	began := time.Now()
	for _, dir := range []string{f.file("log"), f.data()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	if err := writeToolImage(f.toolImage()); err != nil {
		return err
	}
	if err := writeJSON(f.options(), s); err != nil {
		return err
	}
	if err := makeCgroups(s.Options); err != nil {
		return err
	}
	listener, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return err
	}
	defer listener.Close()
	socket, err := listener.File()
	if err != nil {
		return err
	}
	defer socket.Close()

	keeper, reports, err := startKeeper(f, socket)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- keeper.Wait() }()
	defer func() {
		keeper.Process.Kill()
		<-ended
	}()
	ready := make(chan string, 1)
	go func() { ready <- readReports(reports, say) }()
	select {
	case failure := <-ready:
		if failure != "" {
			return fmt.Errorf("raise cluster: %s\n%s", failure, logTails(f))
		}
	case <-time.After(startLimit):
		return fmt.Errorf("raise cluster: not ready within %s\n%s", startLimit, logTails(f))
	case <-ctx.Done():
		return ctx.Err()
	}
	port := listener.Addr().(*net.TCPAddr).Port
	if err := publish(f, s.Options, keeper.Process.Pid, port, time.Since(began)); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// startKeeper starts the first process of the cluster, and gives what it reports.
func startKeeper(f folder, listener *os.File) (*exec.Cmd, io.Reader, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	log, err := os.Create(f.log("keeper"))
	if err != nil {
		return nil, nil, err
	}
	defer log.Close()
	take, give, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	defer give.Close()
	cmd := exec.Command(exe, "keeper", string(f))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{give, listener}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid: true, Pdeathsig: syscall.SIGKILL,
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
	}
	return cmd, take, cmd.Start()
}

// Reports of the keeper are lines: what it waits for, and at the end one of these.
const (
	reportReady  = "ready"
	reportFailed = "failed: "
)

// readReports passes on what the keeper says until it is ready, which gives no text, or
// has failed.
func readReports(r io.Reader, say func(string)) (failure string) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := lines.Text()
		switch {
		case line == reportReady:
			return ""
		case strings.HasPrefix(line, reportFailed):
			return strings.TrimPrefix(line, reportFailed)
		default:
			say(line)
		}
	}
	if err := lines.Err(); err != nil {
		return "its first process cannot be understood: " + err.Error()
	}
	return "its first process has ended"
}

// publish writes the state of a cluster that is ready, and how to reach it from here.
func publish(f folder, o Options, keeper, port int, took time.Duration) error {
	admin, err := readAdmin(keeper, f)
	if err != nil {
		return err
	}
	s := State{Options: o, Holder: os.Getpid(), Keeper: keeper, Ready: took,
		Server: fmt.Sprintf("https://127.0.0.1:%d", port), CA: admin.ca, Token: admin.token}
	if err := writeKubeconfig(f.kubeconfig(), s.Server, s.CA, admin.user); err != nil {
		return err
	}
	if s.Nodes, err = findNodes(keeper, o.Nodes); err != nil {
		return err
	}
	if err := writeJSON(f.state()+".new", s); err != nil {
		return err
	}
	return os.Rename(f.state()+".new", f.state())
}

// readAdmin reads the administrator's credentials from the keeper's mount namespace.
func readAdmin(keeper int, f folder) (a administrator, err error) {
	root := fmt.Sprintf("/proc/%d/root", keeper)
	if a.ca, err = os.ReadFile(root + f.key("ca.crt")); err != nil {
		return a, err
	}
	tokens, err := os.ReadFile(root + f.key("tokens.csv"))
	a.user = users(0)[0]
	a.token, _, _ = strings.Cut(string(tokens), ",")
	return a, err
}

// administrator is the first of [users].
type administrator struct {
	user
	ca []byte
}

// findNodes finds the pids, as this process sees them, of the nodes' first processes:
// children of the keeper that were started as `clusterd node I`.
func findNodes(keeper, count int) ([]Node, error) {
	nodes := make([]Node, count)
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || parentOf(pid) != keeper {
			continue
		}
		text, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		args := strings.Split(strings.TrimRight(string(text), "\x00"), "\x00")
		if len(args) != 4 || args[1] != "node" {
			continue
		}
		if i, err := strconv.Atoi(args[3]); err == nil && i >= 1 && i <= count {
			nodes[i-1] = Node{Name: nodeName(i), IP: nodeAddr(i).String(), PID: pid}
		}
	}
	for i, n := range nodes {
		if n.PID == 0 {
			return nil, fmt.Errorf("the process of node %s is not found", nodeName(i+1))
		}
	}
	return nodes, nil
}

// parentOf reads the parent of a process; 0 if it is gone.
func parentOf(pid int) int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 2 {
		return 0
	}
	parent, _ := strconv.Atoi(fields[1])
	return parent
}

// sweep removes what a holder that was killed has left: a keeper that still ends, cgroups
// and the state.
func sweep(f folder, name string) error {
	if err := removeCgroups(name); err != nil {
		return err
	}
	entries, err := os.ReadDir(string(f))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if f.file(e.Name()) == f.lock() {
			continue
		}
		if err := os.RemoveAll(f.file(e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// logTails gives the last lines of each log, for an error.
func logTails(f folder) string {
	const lines = 5
	var b strings.Builder
	entries, _ := os.ReadDir(f.file("log"))
	for _, e := range entries {
		text, _ := os.ReadFile(f.file("log", e.Name()))
		all := strings.Split(strings.TrimSpace(string(text)), "\n")
		fmt.Fprintf(&b, "-- %s\n%s\n", e.Name(), strings.Join(all[max(0, len(all)-lines):], "\n"))
	}
	return b.String()
}

func writeJSON(file string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}

func readJSON(file string, v any) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	return nil
}
