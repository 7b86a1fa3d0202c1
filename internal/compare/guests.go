package compare

import (
	"context"

	"github.com/venturi-net/venturi/internal/agent"
	"github.com/venturi-net/venturi/internal/lab"
)

// emulated asks the agents in virtual machines whether their CPU is emulated,
// and gives the arms that have such an end. Only inside can be told what a
// virtual machine really runs on.
func emulated(ctx context.Context, l *lab.Lab) (map[string]bool, error) {
	found := map[string]bool{}
	for _, arm := range l.Arms {
		for _, ends := range arm.Ends {
			for _, end := range ends {
				if end.Agent == "" || found[arm.Name] {
					continue
				}
				is, err := emulatedAt(ctx, end.Agent)
				if err != nil {
					return nil, err
				}
				found[arm.Name] = is
			}
		}
	}
	return found, nil
}

func emulatedAt(ctx context.Context, socket string) (bool, error) {
	c, err := agent.Dial(ctx, socket)
	if err != nil {
		return false, err
	}
	defer c.Close()
	facts, _, err := c.Facts(ctx, nil)
	return facts.Emulated, err
}
