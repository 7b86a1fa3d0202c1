package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
)

var (
	agentStart = host.ScaleTimeout(10 * time.Second) // for an agent to listen
	agentStop  = host.ScaleTimeout(2 * time.Second)  // for each of the steps of ending one
)

// agents starts an agent on each of the machines that are measured, and waits
// until they listen.
func (b *builder) agents(ctx context.Context, o Options) error {
	if len(o.AgentCommand) == 0 {
		return nil
	}
	l := b.lab
	for i := range measured {
		m := &l.Machines[i]
		m.Socket = l.socket(m.Name)
		args := append(append([]string{}, o.AgentCommand...), "--machine", m.Name, "--socket", m.Socket)
		for _, core := range o.Cores[m.Name] {
			args = append(args, "--cores", strconv.Itoa(core))
		}
		if o.Keep {
			args = append(args, "--detach")
		}
		child, err := b.machine[i].Start(netcfg.Command{Args: args, Log: agentLog(m), Detach: o.Keep})
		if err != nil {
			return err
		}
		m.AgentPid = child.Pid
		l.agents = append(l.agents, child)
	}
	for i, child := range l.agents {
		if err := awaitSocket(ctx, child, agentStart, l.Machines[i].Socket, "it does not listen"); err != nil {
			return fmt.Errorf("start agent of %s: %w", l.Machines[i].Name, err)
		}
	}
	return nil
}

// awaitSocket waits until a process listens on a socket; what says what it does not do before.
func awaitSocket(ctx context.Context, child *netcfg.Child, limit time.Duration, socket, what string) error {
	return child.Await(ctx, limit, func(ctx context.Context) error {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "unix", socket)
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		return conn.Close()
	})
}

func agentLog(m *Machine) string { return strings.TrimSuffix(m.Socket, ".sock") + ".log" }

// stopAgents ends the agents that this process started.
func (l *Lab) stopAgents() error {
	err := stopAll(l.agents)
	l.agents = nil
	return err
}

// stopAll ends processes, all at once.
func stopAll(children []*netcfg.Child) error {
	failed := make([]error, len(children))
	var all sync.WaitGroup
	for i, child := range children {
		all.Go(func() { failed[i] = child.Stop(agentStop) })
	}
	all.Wait()
	return errors.Join(failed...)
}

// Wait returns when one of the agents that this process started has ended, or
// ctx has. An agent that ends while its lab is up is an error.
func (l *Lab) Wait(ctx context.Context) error {
	if len(l.agents) == 0 {
		return errors.New("wait for agents: this process started none")
	}
	agents := l.agents
	which := make(chan int, len(agents))
	for i, child := range agents {
		go func() {
			select {
			case <-child.Done:
				which <- i
			case <-ctx.Done():
			}
		}()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case i := <-which:
		return fmt.Errorf("agent of %s: %w", l.Machines[i].Name, agents[i].ExitError())
	}
}
