package guest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// defaultPath is the PATH of a command whose environment has none: root's.
const defaultPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// stayLimit limits how long processes that a command leaves behind may write to its output.
const stayLimit = time.Second

// abandonGrace limits how long a command may run on after its client has gone.
const abandonGrace = 5 * time.Second

// process is a running command.
type process struct {
	cmd      *exec.Cmd
	terminal *os.File // our end of its terminal; nil: it has none
	outputs  []output

	mu     sync.Mutex
	ended  bool
	exited chan struct{} // closed on exit
}

// output copies one of the command's standard streams.
type output struct {
	from *os.File
	to   *stream
	done chan struct{}
}

func launch(want start, streams map[part]*stream) (*process, error) {
	if !slices.ContainsFunc(want.Env, func(s string) bool { return strings.HasPrefix(s, "PATH=") }) {
		want.Env = append(want.Env, defaultPath)
	}
	if want.Dir == "" {
		want.Dir = "/"
	}
	if info, err := os.Stat(want.Dir); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("there is no folder %s", want.Dir)
	}
	if len(want.Args) == 0 {
		return nil, errors.New("the command names no program")
	}
	file, err := find(want.Args[0], want.Env)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: &exec.Cmd{Path: file, Args: want.Args, Env: want.Env, Dir: want.Dir}, exited: make(chan struct{})}
	if want.TTY != nil {
		return p, p.startOnTerminal(*want.TTY, streams)
	}
	return p, p.startOnPipes(streams, want.Joined)
}

// find looks a program up as a shell does.
func find(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	for _, v := range slices.Backward(env) {
		list, ok := strings.CutPrefix(v, "PATH=")
		if !ok {
			continue
		}
		for _, folder := range filepath.SplitList(list) {
			file := filepath.Join(folder, name)
			if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return file, nil
			}
		}
		break
	}
	return "", fmt.Errorf("program %s is not in its PATH", name)
}

func (p *process) startOnPipes(streams map[part]*stream, joined bool) error {
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var ours, theirs []*os.File
	defer func() { closeAll(theirs) }()
	var input *os.File
	for part, s := range streams {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(ours)
			return fmt.Errorf("open a pipe: %w", err)
		}
		if part == stdin {
			ours, theirs = append(ours, w), append(theirs, r)
			p.cmd.Stdin, input = r, w
			continue
		}
		ours, theirs = append(ours, r), append(theirs, w)
		p.outputs = append(p.outputs, output{r, s, make(chan struct{})})
		if part == stdout {
			p.cmd.Stdout = w
		} else {
			p.cmd.Stderr = w
		}
	}
	if joined {
		p.cmd.Stderr = p.cmd.Stdout
	}
	if err := p.cmd.Start(); err != nil {
		closeAll(ours)
		return err
	}
	if input != nil {
		go func() {
			// Keep reading after the command stops, or the sender would block.
			_, _ = io.Copy(input, streams[stdin])
			input.Close()
			_, _ = io.Copy(io.Discard, streams[stdin])
			streams[stdin].Close()
		}()
	}
	p.copyOut()
	return nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

func (p *process) startOnTerminal(size Size, streams map[part]*stream) error {
	ours, theirs, err := openTerminal()
	if err != nil {
		return fmt.Errorf("open a terminal: %w", err)
	}
	defer theirs.Close()
	p.terminal = ours
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = theirs, theirs, theirs
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err = p.resize(size); err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		ours.Close()
		return err
	}
	if in := streams[stdin]; in != nil {
		go func() {
			_, _ = io.Copy(ours, in)
			in.Close()
		}()
	}
	if out := streams[stdout]; out != nil {
		p.outputs = append(p.outputs, output{ours, out, make(chan struct{})})
	}
	if s := streams[stderr]; s != nil {
		s.Close()
	}
	p.copyOut()
	return nil
}

// openTerminal opens a terminal whose master supports deadlines, unlike that of package pty.
func openTerminal() (ours, theirs *os.File, err error) {
	blocking, theirs, err := pty.Open()
	if err != nil {
		return nil, nil, err
	}
	defer blocking.Close()
	fd, err := unix.FcntlInt(blocking.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return os.NewFile(uintptr(fd), blocking.Name()), theirs, nil
}

func (p *process) resize(s Size) error {
	return onDescriptor(p.terminal, func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: s.Rows, Col: s.Columns})
	})
}

// onDescriptor calls fn with a file's descriptor. File.Fd would make the file blocking.
func onDescriptor(f *os.File, fn func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	if failed := raw.Control(func(fd uintptr) { err = fn(int(fd)) }); failed != nil {
		return failed
	}
	return err
}

// copyOut forwards the command's output until all writers have closed it, or finish ends it.
func (p *process) copyOut() {
	for _, o := range p.outputs {
		go func() {
			defer close(o.done)
			defer o.to.Close()
			_, err := io.Copy(o.to, o.from)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				// Everything that the command itself wrote is in the pipe by now.
				_, _ = io.CopyN(o.to, o.from, waiting(o.from))
			}
			o.from.Close()
		}()
	}
}

// waiting returns the number of bytes that can be read at once.
func waiting(f *os.File) int64 {
	n := 0
	_ = onDescriptor(f, func(fd int) (err error) {
		n, err = unix.IoctlGetInt(fd, unix.TIOCINQ)
		return err
	})
	_ = f.SetReadDeadline(time.Time{})
	return int64(n)
}

// wait waits for the end of the command and returns its exit code. It waits for the output's
// reader, but not for processes that the command left behind.
func (p *process) wait() int {
	_ = p.cmd.Wait()
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	close(p.exited)
	for _, o := range p.outputs {
		if o.from.SetReadDeadline(time.Now().Add(stayLimit)) != nil {
			o.from.Close() // closed already, or deadlines are unsupported
		}
	}
	for _, o := range p.outputs {
		<-o.done
	}
	if p.terminal != nil {
		p.terminal.Close()
	}
	status := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}

// obey handles requests on the control stream. When the stream ends, the client has gone and the
// command is ended.
func (p *process) obey(s *stream) {
	for {
		var r request
		if err := readLine(s.from, &r); err != nil {
			p.signal(unix.SIGTERM)
			select {
			case <-p.exited:
			case <-time.After(abandonGrace):
				p.signal(unix.SIGKILL)
			}
			return
		}
		if r.Signal != 0 {
			p.signal(syscall.Signal(r.Signal))
		}
		if r.Resize != nil && p.terminal != nil {
			_ = p.resize(*r.Resize) // fails on a terminal that is being closed
		}
	}
}

// signal sends a signal to the command's process group, if it still runs.
func (p *process) signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		_ = unix.Kill(-p.cmd.Process.Pid, sig)
	}
}
