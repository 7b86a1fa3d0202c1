package path

import (
	"context"

	"github.com/venturi-net/venturi/internal/host"
)

// hostDriver is the machines' own network: what every other path is compared with.
// It builds nothing, so two arms of it are the same ends.
var hostDriver = Driver{
	Name:    "host",
	Summary: "the machines' own network, no pods: what the others are compared with",
	Example: "a pod with hostNetwork, or a process outside of any container",
	Up: func(ctx context.Context, s *Site) (Ends, error) {
		return s.buildMachines(ctx, func(i int) ([]host.Endpoint, error) {
			m := s.Machines[i]
			return []host.Endpoint{{Machine: m.Name, Namespace: m.In.Path(), Device: m.Wire, Addr: m.Addr, MTU: m.MTU}}, nil
		})
	},
}
