package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/display"
	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/kernel"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/path"
	"github.com/venturi-net/venturi/internal/progress"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/internal/vm"
	"github.com/venturi-net/venturi/result"
)

// insideVariable tells a command that it is the one inside the virtual machine
// that another one started for it, so that --kernel asks nothing more of it. Its
// value is the kernel's release, and after a space what the user called it.
const insideVariable = "VENTURI_INSIDE"

// kernelFlag holds the flags that choose the kernel to run a command under.
type kernelFlag struct {
	spec  string // as the user names it; empty: the running one
	accel accel
}

func (u *kernelFlag) flags(f *pflag.FlagSet) {
	f.StringVar(&u.spec, "kernel", "", "run everything under another kernel, in a virtual machine: a version from\n\"venturi kernel ls\", such as 6.1, or a bzImage file")
	f.Var(&u.accel, "accel", "what runs the virtual machine: auto, kvm, or tcg (emulation)")
}

// runsInGuest tells whether the command is to be run under another kernel, and is
// not the one that runs there.
func (u *kernelFlag) runsInGuest(env *Env) (bool, error) {
	if u.spec == "" && u.accel != accel(vm.Auto) {
		return false, verr.New(verr.Usage, "cannot choose --accel "+u.accel.String(), "there is no virtual machine without --kernel", "name a kernel with --kernel, or leave --accel out")
	}
	release, called, there := strings.Cut(env.Getenv(insideVariable), " ")
	if u.spec == "" || !there {
		return u.spec != "", nil
	}
	if u.spec != called && u.spec != release && u.spec != (kernel.Kernel{Release: release}).Series() {
		return false, verr.New(verr.Usage, "cannot run under kernel "+u.spec, "this already runs in a virtual machine, under kernel "+release,
			"run it outside, or leave --kernel out")
	}
	return false, nil
}

// accel is what runs a virtual machine, on the command line.
type accel vm.Accel

func (a *accel) String() string {
	if *a == accel(vm.Auto) {
		return "auto"
	}
	return string(*a)
}

func (a *accel) Set(text string) error {
	for _, known := range []vm.Accel{vm.Auto, vm.KVM, vm.TCG} {
		if named := accel(known); named.String() == text {
			*a = named
			return nil
		}
	}
	return errors.New("give auto, kvm or tcg")
}

func (*accel) Type() string { return "how" }

// refuseAttach refuses paths to namespaces that exist on this machine only.
func refuseAttach(specs []string) error {
	for _, spec := range specs {
		if d, _, err := path.ParseSpec(spec); err == nil && d.Name == "attach" {
			return verr.New(verr.Usage, "cannot build path "+spec+" under another kernel",
				"the namespaces that it attaches to are on this host, not in the virtual machine", "leave --kernel out, or that path")
		}
	}
	return nil
}

// measureUnder runs the command line of env once more, inside a virtual machine
// under another kernel. Whatever does not depend on the kernel is refused here,
// and here are made the folders of the records, all of them below out, which is
// what the machine may write to. named tells whether the command line names it.
func measureUnder(ctx context.Context, env *Env, u kernelFlag, requests []*compare.Resolved, out string, named bool) error {
	k, err := u.check(requests)
	if err != nil {
		return err
	}
	show := progress.New(env.Stderr)
	defer show.Done()
	// Two runs disturb each other also when one of them is in a virtual machine,
	// and what one writes to make sure of its folders disturbs the other, too.
	if os.Geteuid() == 0 {
		unlock, err := lab.LockMeasure(ctx, requests[0].Wait, strings.Join(ownCommand(env), " "), show.Say)
		if err != nil {
			return err
		}
		defer unlock()
	}
	var folders []string
	for _, r := range requests {
		tidy, err := compare.Prepare(r.Out, sudoCaller(env))
		if err != nil {
			return err
		}
		defer tidy()
		folders = append(folders, r.Out)
	}
	g, err := boot(ctx, u, vm.Config{Kernel: k, Writable: []string{out}}, show)
	if err != nil {
		return err
	}
	show.Done()
	if why := g.NotKVM(); why != "" {
		sanitize.Fprintf(env.Stderr, "venturi: the virtual machine is emulated: KVM is not usable: %s\n", why)
	}
	args := env.Args
	if !named {
		args = withFlags(args, "--out="+out)
	}
	code, err := g.Run(ctx, commandInside(env, args, u, k))
	if err == nil {
		err = finished(code)
	}
	if err != nil && !errors.As(err, new(exitCode)) {
		tellCut(env, folders)
	}
	return errors.Join(err, g.Close())
}

// check refuses what can be refused before anything is started, and finds the kernel.
func (u kernelFlag) check(requests []*compare.Resolved) (kernel.Kernel, error) {
	for _, r := range requests {
		if err := refuseAttach(r.Paths); err != nil {
			return kernel.Kernel{}, err
		}
		if err := r.CheckAnywhere(); err != nil {
			return kernel.Kernel{}, err
		}
	}
	k, err := kernel.Find(u.spec)
	if err == nil {
		err = feature.Require("cannot run under kernel "+u.spec, vm.Needs()...)
	}
	return k, err
}

// boot starts a virtual machine that has this machine's files, and says so.
func boot(ctx context.Context, u kernelFlag, c vm.Config, show *progress.Progress) (*vm.Guest, error) {
	var err error
	if c.Program, err = program(); err != nil {
		return nil, err
	}
	for i, folder := range c.Writable {
		if c.Writable[i], err = filepath.Abs(folder); err != nil {
			return nil, err
		}
	}
	c.Root, c.Accel = true, vm.Accel(u.accel)
	if show != nil {
		show.Say("starting Linux %s in a virtual machine", c.Kernel.Release)
	}
	return vm.Start(ctx, c)
}

// commandInside is this program, run with other arguments where env is, but inside a
// virtual machine that is the answer to u: it takes --kernel as done.
func commandInside(env *Env, args []string, u kernelFlag, k kernel.Kernel) vm.Command {
	c := commandThere(env, nil)
	if exe, err := program(); err == nil {
		c.Args = append(exe, args...)
	}
	c.Env = append(c.Env, insideVariable+"="+k.Release+" "+u.spec)
	return c
}

// commandThere is a command, run where env is, but inside a virtual machine: what it
// prints comes out here, on a terminal as on one.
func commandThere(env *Env, command []string) vm.Command {
	c := vm.Command{Args: command, Env: env.Environ(), Stdout: env.Stdout, Stderr: env.Stderr}
	c.Dir, _ = os.Getwd() // without one, it starts in /
	if display.IsTerminal(env.Stdout) && display.IsTerminal(env.Stderr) {
		c.TTY = display.TerminalSize(env.Stdout)
	}
	return c
}

// tellCut says where the records are that a virtual machine left when it died.
func tellCut(env *Env, folders []string) {
	for _, folder := range folders {
		if info, err := os.Stat(filepath.Join(folder, result.FileName)); err == nil && info.Size() > 0 {
			sanitize.Fprintf(env.Stderr, "venturi: what was measured until then: venturi report --partial %s\n", sanitize.Path(folder))
		}
	}
}

// exitCode is the exit code of a command that ran elsewhere, and said there what
// was to say.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("the command ended with exit code %d", int(e)) }

// bySignal is above what an exit code is, for a command that a signal ended.
const bySignal = 128

// finished gives the error of the exit code of this program inside; nil: it is 0.
// It says by itself how it ended, but for a signal that it cannot catch.
func finished(code int) error {
	if code <= bySignal || code == verr.Interrupted {
		return endedWith(code)
	}
	sig := syscall.Signal(code - bySignal)
	why := fmt.Sprintf("it was ended by signal %d (%v) in the virtual machine", sig, sig)
	if sig == syscall.SIGKILL {
		why += ", as happens when memory runs out there"
	}
	return verr.New(verr.Failed, "cannot finish the command in the virtual machine", why,
		"run it again; if it fails again, reduce the run: fewer paths, flows or sizes")
}

// endedWith gives the error of an exit code; nil: it is 0.
func endedWith(code int) error {
	if code == verr.OK {
		return nil
	}
	return exitCode(code)
}
