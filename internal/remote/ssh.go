package remote

import (
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
	"slices"
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
	AnyUser bool     // who logs in need not be root: some commands only read
	SSH     []string // the ssh command; empty: ssh
	// Limit bounds the time until the other side is ready, without that of the
	// copy; 0 means 30 seconds. A copy may take as long as it goes on.
	Limit time.Duration
}

// Process is this program on another machine, and its input and output.
type Process struct {
	net.Conn
	Machine Machine
	RunsAs  string // how it runs there: root, sudo or user
	Copied  int64  // bytes that were sent to bring the program there; 0: it was there

	cmd       *exec.Cmd
	stderr    *Tail
	closeOnce sync.Once
	err       error // of ssh, once it has ended
}

// Open starts the agent on a machine, and returns when it is ready to be spoken
// to. It ends when the stream is closed. Errors are for people.
func Open(ctx context.Context, m Machine, o Options) (*Process, error) {
	s, err := start(m, o)
	if err != nil {
		return nil, failure(m, err, "install an ssh client, or name one with --ssh")
	}
	limit := o.Limit
	if limit == 0 {
		limit = 30 * time.Second
	}
	unhook := context.AfterFunc(ctx, s.expire)
	err = s.greet(ctx, o, limit)
	if !unhook() && ctx.Err() != nil {
		err = ctx.Err()
	}
	if err == nil {
		return s, s.SetDeadline(time.Time{})
	}
	said := s.lastWords()
	var known *verr.Error
	var no refusal
	switch {
	case errors.As(err, &known), errors.Is(err, context.Canceled):
		return nil, err
	case errors.As(err, &no):
		return nil, verr.Wrap(verr.Failed, "cannot bring venturi to machine "+m.Name, err, "make room there, or install venturi and give --no-copy")
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = fmt.Errorf("nothing came from it within %v", limit)
		if said != "" {
			err = fmt.Errorf("%w: %s", err, said)
		}
	case said != "":
		err = errors.New(said)
	}
	login := slices.Concat(sshCommand(o), destination(m))
	return nil, failure(m, err, "try `"+sanitize.Command(login...)+"`, which must log in without asking")
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
func start(m Machine, o Options) (*Process, error) {
	// A connection that is open already is used. None is opened for others, which would end with ours;
	// and the agents themselves see to it that they hear each other, not beside a slice.
	quiet := []string{"-T", "-o", "BatchMode=yes", "-o", "ClearAllForwardings=yes", "-o", "ForwardX11=no",
		"-o", "ControlMaster=no", "-o", "ServerAliveInterval=0"}
	return startCommand(m, slices.Concat(sshCommand(o), quiet, destination(m), []string{command()}))
}

func startCommand(m Machine, args []string) (*Process, error) {
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
	s := &Process{Conn: conn, Machine: m, cmd: exec.Command(args[0], args[1:]...), stderr: &Tail{}}
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = theirs, theirs, s.stderr
	// A Ctrl-C at the terminal is ours to act on; and ssh must not outlive us.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	s.cmd.WaitDelay = time.Second / 4 // what it has started may keep its standard error open
	if err := s.cmd.Start(); err != nil {
		conn.Close()
		return nil, err
	}
	return s, nil
}

// OpenHere starts an agent on this host, under a machine's name. program starts this very
// program. It ends when the stream is closed.
func OpenHere(ctx context.Context, machine string, program []string, limit time.Duration) (*Process, error) {
	s, err := startCommand(Machine{Name: machine}, append(slices.Clone(program), "agent", "--stdio", "--machine", machine))
	if err != nil {
		return nil, fmt.Errorf("start an agent: %w", err)
	}
	s.allow(ctx, limit)
	if _, err := readWord(s.Conn, agentWord); err != nil {
		return nil, fmt.Errorf("start an agent: %w; it said: %s", err, s.lastWords())
	}
	return s, s.SetDeadline(time.Time{})
}

// expire ends every read and write that waits: ctx alone cannot.
func (s *Process) expire() { _ = s.SetDeadline(time.Unix(1, 0)) }

// allow gives what follows so long, unless ctx has ended.
func (s *Process) allow(ctx context.Context, limit time.Duration) {
	_ = s.SetDeadline(time.Now().Add(limit))
	if ctx.Err() != nil {
		s.expire()
	}
}

// greet brings the program to the other side, and waits until it runs.
func (s *Process) greet(ctx context.Context, o Options, limit time.Duration) error {
	s.allow(ctx, limit)
	line, err := readWord(s.Conn, helloWord)
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
	if !o.AnyUser {
		if err := checkRoot(s.Machine, h); err != nil {
			return err
		}
	}
	if err := s.provideProgram(ctx, o, h); err != nil {
		return err
	}
	s.allow(ctx, limit)
	_, err = readWord(s.Conn, agentWord)
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

// checkRoot refuses a machine on which nothing can be measured, before anything is copied.
func checkRoot(m Machine, h greeting) error {
	if h.runsAs == "root" || h.runsAs == "sudo" && !m.NoSudo {
		return nil
	}
	why := "who logs in is not root, and `sudo -n` asks for a password or is not there"
	if m.NoSudo {
		why = "who logs in is not root, and sudo is not allowed for it"
	}
	return verr.New(verr.Permission, "cannot use machine "+m.Name, why+"; measuring and changing settings need root",
		"log in as root, or let the user run sudo without a password (NOPASSWD)")
}

// provideProgram has the script run the program: the one that is there, if it is the same or
// nothing may be copied; else a copy of ours.
func (s *Process) provideProgram(ctx context.Context, o Options, h greeting) error {
	sum, err := checksum(o.Program)
	if err != nil {
		return fmt.Errorf("read this program: %w", err)
	}
	if o.NoCopy && h.program == "none" {
		return verr.New(verr.Missing, "cannot use machine "+s.Machine.Name, "venturi is not on its PATH, and --no-copy forbids to bring it",
			"install venturi there, or leave --no-copy out")
	}
	verb := ""
	if s.RunsAs == "sudo" && s.Machine.NoSudo {
		s.RunsAs, verb = "user", userPrefix
	}
	if o.NoCopy || h.sum == sum {
		_, err := fmt.Fprintf(s, "%s %srun\n", s.Machine.Name, verb)
		return err
	}
	program, err := os.ReadFile(o.Program)
	if err != nil {
		return fmt.Errorf("read this program: %w", err)
	}
	body, encoding := program, "plain"
	sum = fmt.Sprintf("%x", sha256.Sum256(program)) // somebody may have replaced the file
	if h.gzip {
		if body, err = zipped(program); err != nil {
			return err
		}
		encoding = "gzip"
	}
	if _, err := fmt.Fprintf(s, "%s %scopy %d %s %s\n", s.Machine.Name, verb, len(body), sum, encoding); err != nil {
		return err
	}
	s.Copied = int64(len(body))
	return s.send(ctx, body)
}

// checksums are those of files, by name, that were read before: many machines are compared with one
// program.
var checksums sync.Map

func checksum(file string) (string, error) {
	if sum, known := checksums.Load(file); known {
		return sum.(string), nil
	}
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	sum := fmt.Sprintf("%x", h.Sum(nil))
	checksums.Store(file, sum)
	return sum, nil
}

// chunk is what is sent within one deadline: a slow line is no broken one.
const chunk = 1 << 20

func (s *Process) send(ctx context.Context, body []byte) error {
	for part := range slices.Chunk(body, chunk) {
		s.allow(ctx, time.Minute)
		if _, err := s.Write(part); err != nil {
			return fmt.Errorf("copy the program: %w", err)
		}
	}
	return nil
}

func zipped(text []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestSpeed)
	if err == nil {
		_, err = w.Write(text)
	}
	if err == nil {
		err = w.Close()
	}
	return b.Bytes(), err
}

// refusal is what the script gives as the reason for going no further.
type refusal string

func (r refusal) Error() string { return string(r) }

// maxNoise bounds what a login shell may print before the word that is waited for.
const maxNoise = 64 << 10

// readWord reads until a line that begins with the word, and no byte behind it: what follows is for
// others. A line that begins with errorWord is an error.
func readWord(in io.Reader, word string) (string, error) {
	var text []byte
	for one := make([]byte, 1); len(text) < maxNoise; {
		if _, err := io.ReadFull(in, one); err != nil {
			return "", fmt.Errorf("wait for %s: %w", word, err)
		}
		text = append(text, one...)
		if one[0] != '\n' {
			continue
		}
		before := bytes.LastIndexByte(text[:len(text)-1], '\n')
		line := strings.TrimSpace(string(text[before+1:]))
		if rest, bad := strings.CutPrefix(line, errorWord+" "); bad {
			return "", refusal(rest)
		}
		if line == word || strings.HasPrefix(line, word+" ") {
			return line, nil
		}
	}
	return "", fmt.Errorf("it prints without end, and no %s", word)
}

// Kill ends ssh at once: nothing answers any more.
func (s *Process) Kill() { _ = s.cmd.Process.Kill() }

// Close ends the program on the other side, and ssh. The error is that of the way
// ssh ended, if it did by itself.
func (s *Process) Close() error {
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

// lastWords ends the stream, and gives what ssh, or the program there, said last.
func (s *Process) lastWords() string {
	_ = s.Close()
	return s.stderr.String()
}
