package ovs

import (
	"context"
	"time"

	"github.com/venturi-net/venturi/internal/host"
)

// settled is how long after boot the daemon counts CPUs right. It counts them
// anew when its last count is older than ten seconds of the clock that starts
// at boot, and takes the time before its first count for zero: until then it
// has none, gives the kernel's datapath no thread that would take in packets
// without a flow, and never makes up for it. Versions up to 3.1.0 do so at
// least; others lose nothing.
const settled = 10 * time.Second

// awaitBoot waits until the daemon can count. Only a machine that was started
// for the purpose is ever that young.
func awaitBoot(ctx context.Context) error {
	since, err := host.SinceBoot()
	if err != nil {
		return err
	}
	return host.Sleep(ctx, settled-since)
}
