package cli

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/venturi-net/venturi/internal/kernel"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/internal/vm"
)

func kernelExec(env *Env) *cobra.Command {
	var (
		u      under
		config vm.Config
	)
	cmd := &cobra.Command{
		Use:   "exec VERSION|FILE [FLAG...] [--] COMMAND [ARGUMENT...]",
		Short: "Run a command under another kernel",
		Long: `Start a virtual machine under a kernel that is kept, or under that of a bzImage
FILE, and run a command in it as its root: in the same folder, with the same
environment and this machine's own files. What the command writes is gone with the
machine, but for what it writes below a folder of --write. It needs no root: then
the command sees of the files what the user may.

The exit code is that of the command.`,
		Example: `  venturi kernel exec 6.1 -- uname -a
  venturi kernel exec 6.12 --write out -- ./try.sh out
  venturi kernel exec ./arch/x86/boot/bzImage -- bash
  go test -exec "venturi kernel exec 6.1 --" ./...`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			spec, command, err := execWords(cmd, args)
			if err != nil || len(command) == 0 {
				return err
			}
			return runUnder(cmd.Context(), env, u, config, spec, command)
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // the command's options are its own
	f.Var(&u.accel, "accel", "what runs the virtual machine: auto, kvm, or tcg (emulation)")
	f.IntVar(&config.CPUs, "cpus", 0, "of the virtual machine (default: this machine's)")
	f.IntVar(&config.Memory, "memory", 0, "of the virtual machine, MiB (default: what a lab needs)")
	f.StringArrayVar(&config.Writable, "write", nil, "let the command write to this folder of the machine; may be given several times")
	return cmd
}

// execWords takes a command line apart: what is before the kernel was read as
// flags, and flags may also stand behind it, until the command begins, whose
// options are its own. No command and no error: the help was asked for, and given.
func execWords(cmd *cobra.Command, args []string) (spec string, command []string, err error) {
	const what = "cannot run a command under another kernel"
	if len(args) > 0 {
		if err := cmd.Flags().Parse(args[1:]); err != nil {
			return "", nil, usage(cmd, err)
		}
		spec, command = args[0], cmd.Flags().Args()
	}
	if help, err := cmd.Flags().GetBool("help"); err == nil && help {
		return "", nil, cmd.Help()
	}
	if len(command) == 0 {
		return "", nil, verr.New(verr.Usage, what, "no kernel, or no command is given", "see `venturi kernel exec --help`")
	}
	if strings.HasPrefix(command[0], "-") {
		return "", nil, verr.New(verr.Usage, what, command[0]+" is a flag, where the command should begin",
			"put flags of venturi before the --, and the command behind it: venturi kernel exec 6.1 --write out -- COMMAND")
	}
	return spec, command, nil
}

// runUnder runs a command in a virtual machine under a kernel that a user named.
func runUnder(ctx context.Context, env *Env, u under, config vm.Config, spec string, command []string) (err error) {
	if config.Kernel, err = kernel.Find(spec); err != nil {
		return err
	}
	for _, folder := range config.Writable {
		if info, err := os.Stat(folder); err != nil || !info.IsDir() {
			return verr.New(verr.Usage, "cannot let the command write to "+folder, "there is no such folder", "make it first")
		}
	}
	g, err := boot(ctx, u, config, nil)
	if err != nil {
		return err
	}
	c := commandThere(env, command)
	c.Stdin = env.Stdin
	leave := typed(env, &c)
	code, err := g.Run(ctx, c)
	leave()
	if err == nil {
		err = endedWith(code)
	}
	return errors.Join(err, g.Close())
}

// typed hands the keys of a terminal to a command that has one of its own, as
// they are typed, until leave is called. Without a terminal to type on it has none.
func typed(env *Env, c *vm.Command) (leave func()) {
	if c.TTY == nil || !isTerminal(env.Stdin) {
		c.TTY = nil
		return func() {}
	}
	var stop func()
	c.Resize, stop = resized(env.Stdout)
	keyboard := int(env.Stdin.(*os.File).Fd())
	before, err := term.MakeRaw(keyboard)
	if err != nil {
		return stop
	}
	return func() {
		stop()
		_ = term.Restore(keyboard, before) // it was a terminal a moment ago
	}
}
