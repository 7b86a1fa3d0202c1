package agent

import (
	"context"
	"time"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/verr"
)

// lingerLook is how often a lingering process looks who is there.
const lingerLook = time.Second

// Linger is the first process of a container whose agents are started in it by others. It
// returns when there has been none for so long.
func Linger(ctx context.Context, idle time.Duration) error {
	tick := time.NewTicker(min(lingerLook, idle/4))
	defer tick.Stop()
	for last := time.Now(); time.Since(last) < idle; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		occupied, err := host.HasMountCompanions()
		if err != nil {
			return verr.Wrap(verr.Failed, "cannot watch the container's processes", err, "run the command again")
		}
		if occupied {
			last = time.Now()
		}
	}
	return nil
}
