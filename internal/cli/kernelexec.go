package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/venturi-net/venturi/internal/display"
	"github.com/venturi-net/venturi/internal/kernel"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/internal/vm"
)

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
		return "", nil, verr.New(verr.Usage, what, "the kernel or the command is missing", "see `venturi kernel exec --help`")
	}
	if strings.HasPrefix(command[0], "-") {
		return "", nil, verr.New(verr.Usage, what, command[0]+" is a flag, where the command is expected",
			"put venturi's flags before the -- and the command after it: venturi kernel exec 6.1 --write out -- COMMAND")
	}
	return spec, command, nil
}

// runUnder runs a command in a virtual machine under a kernel that a user named.
func runUnder(ctx context.Context, env *Env, u kernelFlag, config vm.Config, nics cards, spec string, command []string) (err error) {
	if config.Kernel, err = kernel.Find(spec); err != nil {
		return err
	}
	for _, folder := range config.Writable {
		if info, err := os.Stat(folder); err != nil || !info.IsDir() {
			return verr.New(verr.Usage, "cannot let the command write to "+folder, "there is no such folder", "create it first")
		}
	}
	if len(nics) > 0 {
		config.NICs, config.In, err = vm.Cards(nics)
		if errors.Is(err, fs.ErrPermission) {
			return verr.New(verr.Permission, "cannot give the virtual machine network cards", "only root may create the devices behind them", "run it as root, or leave --nic out")
		}
		if err != nil {
			return err
		}
		defer config.In.Close()
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

// cards are models of network cards, on the command line.
type cards []vm.Model

func (c *cards) String() string {
	if len(*c) == 0 {
		return ""
	}
	return fmt.Sprint([]vm.Model(*c))
}

func (c *cards) Set(text string) error {
	for _, m := range vm.Models {
		if m.String() == text {
			*c = append(*c, m)
			return nil
		}
	}
	return fmt.Errorf("give one of %v", vm.Models)
}

func (*cards) Type() string { return "MODEL" }

// typed hands the keys of a terminal to a command that has one of its own, as
// they are typed, until leave is called. Without a terminal to type on it has none.
func typed(env *Env, c *vm.Command) (leave func()) {
	if c.TTY == nil || !display.IsTerminal(env.Stdin) {
		c.TTY = nil
		return func() {}
	}
	var stop func()
	c.Resize, stop = display.Resized(env.Stdout)
	keyboard := int(env.Stdin.(*os.File).Fd())
	before, err := term.MakeRaw(keyboard)
	if err != nil {
		return stop
	}
	restore := func() { _ = term.Restore(keyboard, before) } // it was a terminal a moment ago
	env.beforeExit.Store(&restore)
	return func() {
		stop()
		env.beforeExit.Store(nil)
		restore()
	}
}
