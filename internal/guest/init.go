package guest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// FailurePrefix begins the console line that says why the first process gave up. The channel may
// not exist yet.
const FailurePrefix = "venturi-guest: "

// serveRole is the argument after Role that makes the process the server. The name of its agent
// follows; empty means none.
const serveRole = "serve"

// channelFile is the file descriptor of the channel in the server.
const channelFile = 3

// Main runs the program as a guest's first process, or as the server that the first process starts.
// ok is false if the process is neither: its arguments do not say so, or it is not in such a
// machine. In a guest it does not return, but powers the machine off. Messages go to console, its
// standard error.
func Main(args []string, console *os.File) (code int, ok bool) {
	at := slices.Index(args, Role)
	if at < 0 {
		return 0, false
	}
	switch rest := args[at+1:]; {
	case len(rest) == 0 && os.Getpid() == 1:
		if _, err := os.Stat(ConfigFile); err != nil {
			return 0, false // such as a container's first process
		}
		boot(args, console)
		return 1, true // not reached: the machine is off
	case len(rest) == 2 && rest[0] == serveRole && os.Getppid() == 1:
		if err := serve(channelFile, rest[1]); err != nil {
			fmt.Fprintln(console, FailurePrefix+err.Error())
			return 1, true
		}
		return 0, true
	}
	return 0, false
}

// boot sets the machine up, starts the server, and powers the machine off when the server has
// ended.
func boot(args []string, console *os.File) {
	server, err := setUp(args, console)
	if err == nil {
		err = reap(server)
	}
	if err != nil {
		fmt.Fprintln(console, FailurePrefix+err.Error())
	}
	powerOff()
}

func setUp(args []string, console *os.File) (server *os.Process, err error) {
	if err := mountFirst(); err != nil {
		return nil, err
	}
	c, err := readConfig()
	if err != nil {
		return nil, err
	}
	if err := loadModules(c.Modules); err != nil {
		return nil, err
	}
	channel, err := openPort()
	if err != nil {
		return nil, err
	}
	defer channel.Close()
	if c.Root {
		if err := enterRoot(c); err != nil {
			return nil, err
		}
	}
	if err := unix.Sethostname([]byte(c.Hostname)); err != nil {
		return nil, fmt.Errorf("set hostname %q: %w", c.Hostname, err)
	}
	if err := setLimits(); err != nil {
		return nil, err
	}
	if err := setUpNetwork(c); err != nil {
		return nil, err
	}
	// This program's file: its path is unreachable after the root is changed.
	cmd := exec.Command("/proc/self/exe", append(slices.Clone(args[1:]), serveRole, c.Agent)...)
	cmd.Args[0] = args[0]
	cmd.Stdout, cmd.Stderr = console, console
	cmd.ExtraFiles = []*os.File{channel}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the server: %w", err)
	}
	return cmd.Process, nil
}

// reap waits for children until the server has ended. The server is the only child of interest; all
// others are orphans that must be reaped.
func reap(server *os.Process) error {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("wait for the server: %w", err)
		case pid == server.Pid && status.Signaled():
			return fmt.Errorf("the server was ended by a signal: %v", status.Signal())
		case pid == server.Pid && status.ExitStatus() != 0:
			return fmt.Errorf("the server ended with exit code %d", status.ExitStatus())
		case pid == server.Pid:
			return nil
		}
	}
}

// powerOff ends the machine. It requests a restart, which every machine supports, and which qemu is
// told to treat as a power-off.
func powerOff() {
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
	time.Sleep(time.Minute) // the first process must not exit before the machine is off
}

// loadModules loads modules, and frees the memory that their files take.
func loadModules(modules []Module) error {
	for _, m := range modules {
		if err := loadModule(m); err != nil && !m.Optional {
			return err
		}
	}
	return os.RemoveAll(ModuleFolder)
}

func loadModule(m Module) error {
	f, err := os.Open(m.path())
	if err != nil {
		return fmt.Errorf("load module: %w", err)
	}
	defer f.Close()
	err = unix.FinitModule(int(f.Fd()), "", 0)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) {
		var content []byte
		if content, err = io.ReadAll(f); err == nil {
			err = unix.InitModule(content, "")
		}
	}
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("load module %s: %w", m.File, err)
	}
	return nil
}

// setLimits sets the limits that systemd sets for a service. Locked memory is unlimited, because
// kernels before 5.11 count BPF in it.
func setLimits() error {
	for _, l := range []struct {
		what      int
		now, most uint64
	}{
		{unix.RLIMIT_NOFILE, 1024, 512 << 10},
		{unix.RLIMIT_MEMLOCK, unix.RLIM_INFINITY, unix.RLIM_INFINITY},
		{unix.RLIMIT_CORE, 0, unix.RLIM_INFINITY},
	} {
		if err := unix.Setrlimit(l.what, &unix.Rlimit{Cur: l.now, Max: l.most}); err != nil {
			return fmt.Errorf("set limits: %w", err)
		}
	}
	return nil
}
