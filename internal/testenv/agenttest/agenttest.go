// Package agenttest lets a test binary play the agents and speakers of the labs
// that its tests raise.
package agenttest

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/venturi-net/venturi/internal/agent"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/reach"
)

// RunAgent is the role of an agent for testenv.Main: args are those that a lab
// starts one with. It returns the exit code.
func RunAgent(args []string) int { return RunAgentWith(agent.Engine{}, nil, args) }

// RunAgentWith is RunAgent with another engine, and with calls in place of the agent's own.
func RunAgentWith(engine agent.Engine, calls map[string]func(context.Context, []byte) ([]byte, error), args []string) int {
	if slices.Contains(args, "--watch") {
		if err := lab.Watch(os.Stdin); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
	o := agent.Options{Machine: valueOf(args, "--machine"), Socket: valueOf(args, "--socket"), Stdin: os.Stdin, Engine: engine}
	start := func() error { return agent.Main(context.Background(), o) }
	if slices.Contains(args, "--stdio") {
		failure := make(chan error, 1)
		parts := &lab.Parts{Program: netcfg.OwnProgram(), Failure: failure}
		o.Lock, o.Calls, o.Close, o.Failure = parts.Lock, parts.Calls(), parts.Close, failure
		maps.Copy(o.Calls, new(reach.Listeners).Calls())
		maps.Copy(o.Calls, calls)
		start = func() error {
			return agent.Stdio(context.Background(), os.Stdin, os.Stdout, valueOf(args, "--remove"), o)
		}
	}
	err := start()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// valueOf finds what follows a flag.
func valueOf(args []string, flag string) string {
	if i := slices.Index(args, flag); i >= 0 && i+1 < len(args) {
		return args[i+1]
	}
	return ""
}
