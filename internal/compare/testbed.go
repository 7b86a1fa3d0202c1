package compare

import (
	"errors"

	"github.com/venturi-net/venturi/internal/agent"
	"github.com/venturi-net/venturi/internal/experiment"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/path"
	"github.com/venturi-net/venturi/result"
)

// testbed is what a comparison runs on: a lab that is raised for it, or two
// machines that are there already.
type testbed interface {
	// daemonExit says why a daemon that carries a path has exited; nil: none has.
	daemonExit(path string) error
	// warnings lists what the end of a run shows of its paths.
	warnings() []result.Warning
	// close takes down what was raised, and releases what was locked.
	close() error
}

// testMachine is one of the machines between which is measured.
type testMachine struct {
	name       string
	agent      *agent.Client
	namespaces []host.Named // that the record has facts of, besides those of the agent's own
	affinity                // of its end of the traffic
}

// testPath is a path that is up: what the record says of it, and where it leads.
type testPath struct {
	arm  result.Arm // as yet without a role
	ends experiment.Ends
}

// newTestPath completes an arm by its ends.
func newTestPath(arm result.Arm, ends path.Ends) testPath {
	client, server := ends[0][0], ends[1][0]
	arm.MTU, arm.From, arm.To = client.MTU, client.Addr.String(), server.Addr.String()
	if n := len(ends[0]); n > 1 {
		arm.Pairs = n
	}
	p := testPath{arm: arm}
	for n, from := range ends[0] {
		p.ends.Pairs = append(p.ends.Pairs, load.Pair{From: from, To: ends[1][n]})
	}
	return p
}

// agents are the clients of all agents; nil: not connected.
type agents []*agent.Client

func (a agents) close() (err error) {
	for _, c := range a {
		if c != nil {
			err = errors.Join(err, c.Close())
		}
	}
	return err
}
