package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// NameVariable names, to the tests that `clusterd run` starts, the cluster that is theirs.
const NameVariable = "VENTURI_TEST_CLUSTER"

// Raised is a cluster that is up.
type Raised struct {
	State
	Kubeconfig string // a file that holds for any process of this machine
	Logs       string // the folder of all logs
}

// Find gives a cluster that is up, or says that there is none.
func Find(name string) (*Raised, error) {
	f := stateFolder(name)
	c := &Raised{Kubeconfig: f.kubeconfig(), Logs: f.file("log")}
	if err := readJSON(f.state(), &c.State); err != nil {
		return nil, fmt.Errorf("no cluster named %s is up: %w", name, err)
	}
	if syscall.Kill(c.Keeper, 0) != nil {
		return nil, fmt.Errorf("the cluster %s has died: its state is in %s", name, f)
	}
	return c, nil
}

// Down ends a cluster and waits until nothing is left. None is not an error.
func Down(name string) error {
	f := stateFolder(name)
	if _, err := os.Stat(string(f)); errors.Is(err, fs.ErrNotExist) {
		return removeCgroups(name)
	}
	if c, err := Find(name); err == nil {
		syscall.Kill(c.Holder, syscall.SIGTERM)
	}
	// The holder has the lock as long as it lives.
	var unlock func()
	err := await(context.Background(), "the holder of cluster "+name+" ends", 90*time.Second, func() (bool, string) {
		var err error
		unlock, err = lockFile(f.lock())
		return err == nil || errors.Is(err, fs.ErrNotExist), fmt.Sprint(err)
	})
	if err != nil {
		return err
	}
	if unlock != nil {
		defer unlock()
	}
	if _, err := os.Stat(string(f)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(sweep(f, name), os.RemoveAll(string(f)))
}

// Enter is a command in all namespaces of a node, as a process on that machine would run.
func (n Node) Enter(ctx context.Context, args ...string) *exec.Cmd {
	enter := []string{"--target", strconv.Itoa(n.PID), "--mount", "--pid", "--uts", "--ipc", "--net", "--wd=/", "--"}
	return exec.CommandContext(ctx, "nsenter", append(enter, args...)...)
}

// Request asks the API server as its administrator. An object, when there is one, is sent;
// the answer is read into a value, or as it is into a string. Where no answer comes, as from a server
// that is busy or was stopped, what only reads is asked again for a while.
func (c *Raised) Request(ctx context.Context, method, path string, object, into any) error {
	api, err := newClient(c.Server, c.CA, c.Token)
	if err != nil {
		return err
	}
	defer api.http.CloseIdleConnections()
	for end := time.Now().Add(readLimit); ; {
		err := api.do(ctx, method, path, object, into)
		if method != http.MethodGet || !errors.As(err, new(net.Error)) || time.Now().After(end) || ctx.Err() != nil {
			return err
		}
		time.Sleep(500 * time.Millisecond)
	}
}

// readLimit bounds for how long the API server may give no answer.
const readLimit = time.Minute

// Import loads an image, a tar in the layout of OCI or Docker, into each node.
func (c *Raised) Import(ctx context.Context, tar string) error {
	debian := debianRoot()
	for _, n := range c.Nodes {
		in, err := os.Open(tar)
		if err != nil {
			return err
		}
		cmd := n.Enter(ctx, filepath.Join(debian, "usr/bin/ctr"), "--namespace", "k8s.io", "images", "import", "-")
		cmd.Stdin = in
		out, err := cmd.CombinedOutput()
		in.Close()
		if err != nil {
			return fmt.Errorf("import %s on %s: %w: %s", tar, n.Name, err, out)
		}
	}
	return nil
}

// PIDs finds processes of a program, such as kubelet, on a node; those of the control plane
// are "on" none. The pids are this process's.
func (c *Raised) PIDs(node, program string) ([]int, error) {
	first := c.Keeper
	for _, n := range c.Nodes {
		if n.Name == node {
			first = n.PID
		}
	}
	space, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", first))
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var found []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		text, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		name, _, _ := strings.Cut(string(text), "\x00")
		in, _ := os.Readlink(filepath.Join("/proc", e.Name(), "ns/pid"))
		if filepath.Base(name) == program && in == space {
			found = append(found, pid)
		}
	}
	return found, nil
}

// Start raises a cluster and returns when it is ready. exe is the program clusterd. With a
// lifeline, the cluster goes down when the other end of that pipe is closed, also by the
// death of whoever has it; without, it outlives this process.
func Start(ctx context.Context, exe string, o Options, lifeline *os.File, progress io.Writer) (*Raised, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	take, give, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	holder := exec.Command(exe, holdArgs(o, lifeline != nil)...)
	holder.Stdout, holder.Stderr = give, give
	if lifeline != nil {
		holder.Stdin = lifeline
	}
	holder.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = holder.Start()
	give.Close()
	if err != nil {
		take.Close()
		return nil, err
	}
	ended := make(chan string, 1)
	go func() {
		var said strings.Builder
		io.Copy(io.MultiWriter(progress, &said), take)
		take.Close()
		holder.Wait()
		ended <- said.String()
	}()
	return awaitState(ctx, o.Name, holder.Process, ended)
}

// holdArgs is the command line of a holder.
func holdArgs(o Options, lifeline bool) []string {
	args := []string{"hold", "-name", o.Name, "-nodes", strconv.Itoa(o.Nodes), "-backend", o.Backend, "-proxy-mode", o.ProxyMode}
	if lifeline {
		args = append(args, "-lifeline")
	}
	return append(args, o.Images...)
}

// awaitState waits until the holder has written that the cluster is up, or has ended.
func awaitState(ctx context.Context, name string, holder *os.Process, ended <-chan string) (*Raised, error) {
	for {
		c, err := Find(name)
		if err == nil && c.Holder == holder.Pid {
			return c, nil
		}
		select {
		case said := <-ended:
			return nil, fmt.Errorf("the cluster did not come up:\n%s", said)
		case <-ctx.Done():
			holder.Signal(syscall.SIGTERM)
			<-ended
			return nil, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}
