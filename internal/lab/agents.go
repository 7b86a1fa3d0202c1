package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/venturi-net/venturi/internal/change"
)

const (
	agentStart = 10 * time.Second     // for an agent to listen
	agentPoll  = 5 * time.Millisecond // between looks whether it does
	agentStop  = 2 * time.Second      // for each of the steps of ending one
	logTail    = 2000                 // bytes of its log that an error shows
)

// agents starts one agent a machine and waits until both listen.
func (b *builder) agents(ctx context.Context, o Options) error {
	if len(o.AgentCommand) == 0 {
		return nil
	}
	l := b.lab
	for i := range l.Machines {
		m := &l.Machines[i]
		m.Socket = l.socket(m.Name)
		args := append(append([]string{}, o.AgentCommand...), "--machine", m.Name, "--socket", m.Socket)
		if o.Keep {
			args = append(args, "--detach")
		}
		child, err := b.machine[i].Start(change.Command{Args: args, Log: agentLog(m), Detach: o.Keep})
		if err != nil {
			return err
		}
		m.AgentPid = child.Pid
		l.agents = append(l.agents, child)
	}
	for i := range l.Machines {
		if err := awaitAgent(ctx, &l.Machines[i], l.agents[i]); err != nil {
			return err
		}
	}
	return nil
}

func agentLog(m *Machine) string { return strings.TrimSuffix(m.Socket, ".sock") + ".log" }

// awaitAgent returns when the agent's socket takes connections.
func awaitAgent(ctx context.Context, m *Machine, child *change.Child) error {
	late := time.After(agentStart)
	for {
		conn, err := net.Dial("unix", m.Socket)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-child.Done:
			return fmt.Errorf("start agent of %s: it ended at once%s", m.Name, end(m, child))
		case <-late:
			return fmt.Errorf("start agent of %s: it does not listen after %v: %w%s", m.Name, agentStart, err, said(m))
		case <-time.After(agentPoll):
		}
	}
}

// end tells how an agent ended and what it said.
func end(m *Machine, child *change.Child) string {
	how := "with success"
	if err := child.Err(); err != nil {
		how = err.Error()
	}
	return " (" + how + ")" + said(m)
}

// said gives the end of what an agent wrote before it failed.
func said(m *Machine) string {
	text, err := os.ReadFile(filepath.Clean(agentLog(m)))
	if err != nil || len(text) == 0 {
		return ""
	}
	if len(text) > logTail {
		text = text[len(text)-logTail:]
	}
	return "; it said: " + strings.TrimSpace(string(text))
}

// stopAgents ends the agents that this process started, all at once.
func (l *Lab) stopAgents() {
	done := make(chan struct{})
	for _, child := range l.agents {
		go func() {
			child.Stop(agentStop)
			done <- struct{}{}
		}()
	}
	for range l.agents {
		<-done
	}
	l.agents = nil
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
		return fmt.Errorf("agent of %s ended%s", l.Machines[i].Name, end(&l.Machines[i], agents[i]))
	}
}
