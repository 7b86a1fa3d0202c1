package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/kernel"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/progress"
	"github.com/venturi-net/venturi/internal/vm"
)

// bootLimit is how long a virtual machine that is held for a lab may take to
// start. The machine's own limit is shorter, and its reason is the better one.
const bootLimit = vm.LongestStart + time.Minute

// raiseUnder raises a lab under another kernel: this very command line, run in
// a virtual machine that is held until the lab is taken down.
func raiseUnder(ctx context.Context, env *Env, u kernelFlag, o lab.Options) (*lab.Lab, error) {
	if err := refuseAttach(o.Paths); err != nil {
		return nil, err
	}
	if err := o.CheckAnywhere(); err != nil {
		return nil, err
	}
	k, err := kernel.Find(u.spec)
	if err != nil {
		return nil, err
	}
	if err := feature.Require("cannot run under kernel "+u.spec, vm.Needs()...); err != nil {
		return nil, err
	}
	config, err := json.Marshal(vm.Config{Kernel: k, Program: o.Program, Root: true, Accel: vm.Accel(u.accel)})
	if err != nil {
		return nil, err
	}
	show := progress.New(env.Stderr)
	defer show.Done()
	show.Say("starting Linux %s in a virtual machine", k.Release)
	hold := lab.Holding{Kernel: k.Release, Command: append(slices.Clone(o.Program), "guest"), Config: config, Start: bootLimit}
	return lab.UpElsewhere(ctx, o.Name, hold, func(ctx context.Context, g lab.Guest) (*lab.Lab, error) {
		show.Say("raising the lab in it")
		var said bytes.Buffer
		c := commandInside(env, withFlags(env.Args, "--json"), u, k)
		c.Stdout, c.TTY = &said, nil
		code, err := vm.RemoteGuest{Socket: g.Socket}.Run(ctx, c)
		if err != nil {
			return nil, err
		}
		if err := finished(code); err != nil {
			return nil, err
		}
		var l lab.Lab
		if err := json.Unmarshal(said.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("read what lab the virtual machine has: %w", err)
		}
		return &l, nil
	})
}

// execUnder runs a command in a lab that is in a virtual machine.
func execUnder(ctx context.Context, env *Env, l *lab.Lab, where string, command []string) error {
	exe, err := program()
	if err != nil {
		return err
	}
	c := commandThere(env, append(exe, append([]string{"lab", "exec", "--name", l.Name, where, "--"}, command...)...))
	c.Stdin = env.Stdin
	leave := typed(env, &c)
	defer leave()
	code, err := vm.RemoteGuest{Socket: l.Guest.Socket}.Run(ctx, c)
	if err != nil {
		return err
	}
	return endedWith(code)
}
