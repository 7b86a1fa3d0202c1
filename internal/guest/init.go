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

// FailurePrefix begins the line on the console that tells why the first process
// gave up. There may be no channel yet to tell it on.
const FailurePrefix = "venturi-guest: "

// serveRole is the argument behind Role that makes the process the server. The
// name of the agent to be follows, and is empty for none.
const serveRole = "serve"

// channelFile is the descriptor by which the server gets the channel.
const channelFile = 3

// Main is the program as a guest's first process, or as the server that this
// one starts. ok is false when the process is neither: its arguments do not say
// so, or it is not in such a machine. It ends the machine rather than return.
// What it has to say goes to console, its standard error.
func Main(args []string, console *os.File) (code int, ok bool) {
	at := slices.Index(args, Role)
	if at < 0 {
		return 0, false
	}
	switch rest := args[at+1:]; {
	case len(rest) == 0 && os.Getpid() == 1:
		if _, err := os.Stat(ConfigFile); err != nil {
			return 0, false // a container's first process, say
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

// boot makes the machine usable, starts the server, and turns the machine off
// when that has ended.
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
	// This very file: by its path it is out of reach once the root was changed.
	cmd := exec.Command("/proc/self/exe", append(slices.Clone(args[1:]), serveRole, c.Agent)...)
	cmd.Args[0] = args[0]
	cmd.Stdout, cmd.Stderr = console, console
	cmd.ExtraFiles = []*os.File{channel}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the server: %w", err)
	}
	return cmd.Process, nil
}

// reap waits for whatever ends, until the server has. It is the only child that
// anybody asks for here; all others were orphaned, and only want to be waited for.
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

// powerOff ends the machine. It asks for a restart, which every machine can do,
// and which qemu is told to take for an end.
func powerOff() {
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
	time.Sleep(time.Minute) // for the machine to go: the first process must not end
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

// setLimits gives what runs in the guest the limits that systemd gives a
// service, but for memory locked for BPF, which kernels before 5.11 count.
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
