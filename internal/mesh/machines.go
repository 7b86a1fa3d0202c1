package mesh

import (
	"context"

	"github.com/venturi-net/venturi/internal/agent"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/remote"
)

// MachinesRequest says which machines are measured, and how they are reached.
type MachinesRequest struct {
	Options
	Machines []remote.Machine
	Remote   remote.Options
	Command  string // what to tell others of it
	Wait     bool   // for another run
}

// MeasureMachines starts an agent on each of the machines, measures all pairs, and ends the
// agents. Errors are for people; what was measured before one is in the report.
func MeasureMachines(ctx context.Context, q MachinesRequest) (*Survey, error) {
	mesh := make([]Member, len(q.Machines))
	if _, err := q.Options.complete(mesh); err != nil {
		return nil, err
	}
	ends := make([]end, len(q.Machines))
	for i, m := range q.Machines {
		ends[i] = end{node: Member{Name: m.Name}, location: agent.Location{Option: "machine", Namespace: host.OwnNetwork, Addr: m.Addr, Device: m.Device}}
		q.Say("reaching machine %s (%s)", m.Name, m.Host)
	}
	streams := make([]*remote.Process, len(ends))
	defer func() {
		for _, s := range streams {
			if s != nil {
				_ = s.Close() // it is over, however ssh ends
			}
		}
	}()
	for i := range ends {
		ends[i].reach = func(ctx context.Context) (err error) {
			streams[i], err = remote.Open(ctx, q.Machines[i], q.Remote)
			ends[i].stream = streams[i]
			return err
		}
	}
	lock := func(ctx context.Context, clients []*agent.Client) []error {
		return agent.LockEach(ctx, clients, agent.LockOptions{Command: q.Command, Wait: q.Wait, Say: q.Say})
	}
	r, err := measureEnds(ctx, ends, lock, q.Options)
	if r != nil {
		r.Network = "machines"
	}
	return r, err
}
