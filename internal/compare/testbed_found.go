package compare

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/venturi-net/venturi/internal/agent"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/remote"
)

// hereStart is how long an agent on this host may take to start.
var hereStart = host.ScaleTimeout(10 * time.Second)

// openFound takes the lock, starts two agents on this host, and finds the ends of every path.
func openFound(ctx context.Context, r *Resolved, h Host) (s *Session, err error) {
	unlock, err := lab.LockMeasure(ctx, r.Wait, strings.Join(r.Command, " "), h.Watch.Say)
	if err != nil {
		return nil, err
	}
	b := &remoteTestbed{unlock: unlock, agents: make(agents, 2), streams: make([]*remote.Process, 2)}
	defer func() {
		if err != nil {
			s, err = nil, errors.Join(err, b.close())
		}
	}()
	h.Watch.Say("looking for both ends of %s", strings.Join(r.Paths, ", "))
	s = &Session{host: h, testbed: b, sharedCores: true}
	for i, name := range []string{"m1", "m2"} { // as a lab calls them
		if b.streams[i], err = remote.OpenHere(ctx, name, h.Program, hereStart); err != nil {
			return nil, err
		}
		if b.agents[i], err = agent.DialStream(ctx, b.streams[i], name); err != nil {
			return nil, err
		}
		s.machines = append(s.machines, testMachine{name: name, agent: b.agents[i]})
	}
	client, server := dealCores(b.agents[0].CPUs())
	s.machines[0].affinity, s.machines[1].affinity = onCores(client), onCores(server)
	return s, b.addPaths(ctx, r, s)
}
