package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/verr"
)

// Guest is a virtual machine that holds a lab, under another kernel. A process
// keeps it, and opens it to others on a socket. That process and the machine's
// are in a namespace of the lab's, without a network: so they are found and
// ended as all that belongs to a lab is.
type Guest struct {
	Kernel string `json:"kernel"` // its release
	Socket string `json:"socket"` // where the machine is reached
}

// guestSpace is the part behind the lab's name of that namespace's.
const guestSpace = "vm"

// Holding says how to start the process that holds a virtual machine.
type Holding struct {
	Kernel  string   // release, for people
	Command []string // takes --config, --socket and --detach
	Config  []byte   // the file for --config
	// Start is how long the machine may take to start.
	Start time.Duration
}

// UpElsewhere raises a lab inside a virtual machine, which stays until the lab
// is taken down. raise is called when the machine is up: it raises a lab of the
// same name there, and gives what is in it. When that fails or ctx ends in the
// middle, nothing is left.
func UpElsewhere(ctx context.Context, name string, h Holding, raise func(context.Context, Guest) (*Lab, error)) (*Lab, error) {
	claim, err := NewClaim(ctx, name)
	if err != nil {
		return nil, err
	}
	l := &Lab{Name: name, claim: claim}
	g := Guest{Kernel: h.Kernel, Socket: filepath.Join(folder(name), "vm.sock")}
	var raised *Lab
	if l.writer, err = netcfg.Owned(name); err == nil {
		err = l.hold(ctx, g, h)
	}
	if err == nil {
		raised, err = raise(ctx, g)
	}
	if err == nil {
		raised.Guest = &g
		claim.state.Lab, claim.state.Keep = raised, true
		err = claim.save()
	}
	if err != nil {
		return nil, errors.Join(err, l.Down())
	}
	claim.Release()
	return raised, nil
}

// hold starts the process that holds the machine, and waits until it does.
func (l *Lab) hold(ctx context.Context, g Guest, h Holding) error {
	space, err := l.writer.Create(l.writer.Name(guestSpace))
	if err != nil {
		return err
	}
	defer space.Close()
	if err := l.claim.guard(space); err != nil {
		return err
	}
	config := filepath.Join(folder(l.Name), "vm.json")
	if err := os.WriteFile(config, h.Config, 0o600); err != nil {
		return fmt.Errorf("write configuration of the virtual machine: %w", err)
	}
	log := filepath.Join(folder(l.Name), "vm.log")
	child, err := space.Start(netcfg.Command{
		Args: append(h.Command, "--config", config, "--socket", g.Socket, "--detach"), Log: log, Detach: true,
	})
	if err != nil {
		return err
	}
	err = awaitSocket(ctx, child, h.Start, g.Socket, "it has not started")
	if err == nil || ctx.Err() != nil {
		return err
	}
	return verr.ReadFile(log, err)
}

// alive tells whether what holds the machine of a lab still runs; on no
// virtual machine nothing depends.
func (g *Guest) alive(name string) (bool, error) {
	if g == nil {
		return true, nil
	}
	w, err := netcfg.Owned(name)
	if err != nil {
		return false, err
	}
	id, err := host.ID(host.NamespacePath(w.Name(guestSpace)))
	if err != nil {
		return false, nil // somebody removed the namespace
	}
	pids, err := host.Reader{}.ProcessesIn(id)
	return len(pids) > 0, err
}
