package cli

import (
	"context"
	"errors"
	"os"

	"golang.org/x/term"

	"github.com/venturi-net/venturi/internal/kernel"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/internal/vm"
)

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
	c := commandInside(env, nil)
	c.Args, c.Stdin, c.Env = command, env.Stdin, env.Environ()
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
