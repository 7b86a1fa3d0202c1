package remote

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/verr"
)

// Options say how a machine is reached.
type Options struct {
	Program string   // this program's file: what is copied
	NoCopy  bool     // use the program that is there, or fail
	SSH     []string // the ssh command; empty: ssh
	// Limit bounds the time until the other side is ready, without that of the
	// copy; 0 means 30 seconds. A copy may take as long as it goes on.
	Limit time.Duration
}

// Stream is this program on another machine, and its input and output.
type Stream struct {
	net.Conn
	Machine Machine
	RunsAs  string // how it runs there: root, sudo or user
	Copied  int64  // bytes that were sent to bring the program there; 0: it was there

	cmd       *exec.Cmd
	stderr    *tail
	closeOnce sync.Once
	err       error // of ssh, once it has ended
}

// Open starts the agent on a machine, and returns when it is ready to be spoken
// to. It ends when the stream is closed. Errors are for people.
func Open(ctx context.Context, m Machine, o Options) (*Stream, error) {
	s, err := start(m, o)
	if err != nil {
		return nil, failure(m, err, "install an ssh client, or name one with --ssh")
	}
	limit := o.Limit
	if limit == 0 {
		limit = 30 * time.Second
	}
	// A deadline ends reads that ctx cannot.
	unhook := context.AfterFunc(ctx, func() { _ = s.SetDeadline(time.Unix(1, 0)) })
	_ = s.SetDeadline(time.Now().Add(limit))
	err = s.greet(o, limit)
	if !unhook() && ctx.Err() != nil {
		err = ctx.Err()
	}
	if err == nil {
		return s, s.SetDeadline(time.Time{})
	}
	_ = s.Close()
	var known *verr.Error
	var no refusal
	switch {
	case errors.As(err, &known), errors.Is(err, context.Canceled):
		return nil, err
	case errors.As(err, &no):
		return nil, verr.Wrap(verr.Failed, "cannot bring venturi to machine "+m.Name, err, "make room there, or install venturi and give --no-copy")
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = fmt.Errorf("nothing came from it within %v%s", limit, s.lastWords())
	case s.lastWords() != "":
		err = errors.New(strings.TrimPrefix(s.lastWords(), ": "))
	}
	return nil, failure(m, err, "try `"+sanitize.Command(append(sshCommand(o), destination(m)...)...)+"`, which must log in without asking")
}

func failure(m Machine, err error, do string) error {
	return verr.Wrap(verr.Failed, "cannot reach machine "+m.Name+" ("+m.Host+")", err, do)
}

func sshCommand(o Options) []string {
	if len(o.SSH) > 0 {
		return o.SSH
	}
	return []string{"ssh"}
}

// destination is what ssh is told of the machine.
func destination(m Machine) (args []string) {
	if m.Port != 0 {
		args = append(args, "-p", strconv.Itoa(m.Port))
	}
	if m.User != "" {
		args = append(args, "-l", m.User)
	}
	return append(args, "--", m.Host)
}

// start runs ssh on one end of a socket pair, whose other end is the stream: so it
// has deadlines, as pipes of a process do not.
func start(m Machine, o Options) (*Stream, error) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make a socket pair: %w", err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "ssh")
	defer theirs.Close()
	mine := os.NewFile(uintptr(pair[0]), "stream")
	conn, err := net.FileConn(mine)
	mine.Close()
	if err != nil {
		return nil, fmt.Errorf("make a socket pair: %w", err)
	}
	args := append(sshCommand(o), "-T", "-o", "BatchMode=yes", "-o", "ClearAllForwardings=yes", "-o", "ForwardX11=no")
	args = append(append(args, destination(m)...), command())
	s := &Stream{Conn: conn, Machine: m, cmd: exec.Command(args[0], args[1:]...), stderr: &tail{}}
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = theirs, theirs, s.stderr
	// A Ctrl-C at the terminal is ours to act on; and ssh must not outlive us.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	s.cmd.WaitDelay = time.Second
	if err := s.cmd.Start(); err != nil {
		conn.Close()
		return nil, err
	}
	return s, nil
}

// greet brings the program to the other side, and waits until it runs.
func (s *Stream) greet(o Options, limit time.Duration) error {
	in := bufio.NewReaderSize(s.Conn, 1) // no byte behind a line is ours
	line, err := readWord(in, helloWord)
	if err != nil {
		return err
	}
	h, err := parseHello(line)
	if err != nil {
		return err
	}
	s.RunsAs = h.runsAs
	if err := checkPlatform(s.Machine, h); err != nil {
		return err
	}
	if err := s.provideProgram(o, h); err != nil {
		return err
	}
	_ = s.SetDeadline(time.Now().Add(limit))
	_, err = readWord(in, agentWord)
	return err
}

// checkPlatform refuses a machine that this program does not run on.
func checkPlatform(m Machine, h greeting) error {
	arch, known := map[string]string{"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "riscv64": "riscv64", "ppc64le": "ppc64le", "s390x": "s390x"}[h.arch]
	switch {
	case h.system != "Linux":
		return verr.New(verr.Missing, "cannot use machine "+m.Name, "it runs "+sanitize.Text(h.system)+", not Linux", "name a Linux machine")
	case !known || arch != runtime.GOARCH:
		return verr.New(verr.Missing, "cannot use machine "+m.Name, "its processor is "+sanitize.Text(h.arch)+", and this program is built for "+runtime.GOARCH,
			"install the same version of venturi there, built for its processor, and give --no-copy")
	}
	return nil
}

// provideProgram has the script run the program: the one that is there, if it is the same or
// nothing may be copied; else a copy of ours.
func (s *Stream) provideProgram(o Options, h greeting) error {
	sum, size, err := digest(o.Program)
	if err != nil {
		return err
	}
	if o.NoCopy && h.program == "none" {
		return verr.New(verr.Missing, "cannot use machine "+s.Machine.Name, "venturi is not on its PATH, and --no-copy forbids to bring it",
			"install venturi there, or leave --no-copy out")
	}
	if o.NoCopy || h.sum == sum {
		_, err := fmt.Fprintf(s, "%s run\n", s.Machine.Name)
		return err
	}
	body, encoding, err := packed(o.Program, h.gzip)
	if err != nil {
		return err
	}
	if encoding == "plain" {
		body = body[:size]
	}
	if _, err := fmt.Fprintf(s, "%s copy %d %s %s\n", s.Machine.Name, len(body), sum, encoding); err != nil {
		return err
	}
	s.Copied = int64(len(body))
	return s.send(body)
}

// chunk is what is sent within one deadline: a slow line is no broken one.
const chunk = 1 << 20

func (s *Stream) send(body []byte) error {
	for part := range chunks(body) {
		_ = s.SetDeadline(time.Now().Add(time.Minute))
		if _, err := s.Write(part); err != nil {
			return fmt.Errorf("copy the program: %w", err)
		}
	}
	return nil
}

func chunks(body []byte) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(body) > 0 {
			n := min(chunk, len(body))
			if !yield(body[:n]) {
				return
			}
			body = body[n:]
		}
	}
}

func digest(file string) (sum string, size int64, err error) {
	f, err := os.Open(file)
	if err != nil {
		return "", 0, fmt.Errorf("read this program: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	size, err = io.Copy(h, f)
	return fmt.Sprintf("%x", h.Sum(nil)), size, err
}

// packed is the program as it is sent.
func packed(file string, compress bool) (body []byte, encoding string, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, "", fmt.Errorf("read this program: %w", err)
	}
	if !compress {
		return text, "plain", nil
	}
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if _, err := w.Write(text); err != nil {
		return nil, "", err
	}
	err = w.Close()
	return b.Bytes(), "gzip", err
}

// refusal is what the script gives as the reason for going no further.
type refusal string

func (r refusal) Error() string { return string(r) }

// maxNoise bounds what a login shell may print before the word that is waited for.
const maxNoise = 64 << 10

// readWord reads until a line that begins with the word; one of errorWord is an error.
func readWord(in *bufio.Reader, word string) (string, error) {
	for read := 0; read < maxNoise; {
		line, err := in.ReadString('\n')
		if err != nil {
			return "", fmt.Errorf("wait for %s: %w", word, err)
		}
		read += len(line)
		line = strings.TrimSpace(line)
		if rest, bad := strings.CutPrefix(line, errorWord+" "); bad {
			return "", refusal(rest)
		}
		if line == word || strings.HasPrefix(line, word+" ") {
			return line, nil
		}
	}
	return "", fmt.Errorf("it prints without end, and no %s", word)
}

// Close ends the program on the other side, and ssh. The error is that of the way
// ssh ended, if it did by itself.
func (s *Stream) Close() error {
	s.closeOnce.Do(func() {
		_ = s.Conn.Close()
		ended := make(chan error, 1)
		go func() { ended <- s.cmd.Wait() }()
		select {
		case s.err = <-ended:
		case <-time.After(time.Second): // the other side is dead, or the line to it
			_ = s.cmd.Process.Kill()
			<-ended
		}
	})
	return s.err
}

// lastWords are what ssh, or the program there, said last.
func (s *Stream) lastWords() string {
	_ = s.Close()
	if said := s.stderr.String(); said != "" {
		return ": " + said
	}
	return ""
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if over := len(t.text) - 2000; over > 0 {
		t.text = t.text[over:]
	}
	return len(p), nil
}

// String is one line, fit for a terminal.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return sanitize.Text(strings.Join(strings.Fields(string(t.text)), " "))
}
