package discover

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/verr"
)

// Of a node, so many devices and neighbours are listed at most: with more, an error says so. Of a bridge that is
// flooded with MACs, no more forwarding entries than the daemon looks at.
func TestLimits(t *testing.T) {
	n := testenv.Netns(t)
	testenv.Shell(t, n.Path(), `
		ip link add br0 type bridge
		ip link add p0 type veth peer name q0
		ip link set p0 master br0 up
		ip link set q0 up
		for i in 1 2 3 4; do ip neigh add 192.0.2.$i lladdr 02:00:00:00:00:0$i dev q0; done`)
	const flood = 80_000
	testenv.FloodFDB(t, n.Path(), "p0", flood)
	testenv.InNetns(t, n.Path(), func() error {
		for what, list := range map[string]func(most int) (int, error){
			"devices":    func(most int) (int, error) { all, err := devices(most); return len(all), err },
			"neighbours": func(most int) (int, error) { all, err := neighbours(unix.AF_INET, most); return len(all), err },
		} {
			all, err := list(maxListed)
			if err != nil || all < 3 {
				return fmt.Errorf("%d %s: %w", all, what, err)
			}
			if again, err := list(all); again != all || err != nil {
				t.Errorf("of %d %s that may be, %d are listed: %v", all, what, again, err)
			}
			kept, err := list(all - 1)
			var said *verr.Error
			if !errors.As(err, &said) || !strings.Contains(said.Reason, fmt.Sprintf("more than %d %s", all-1, what)) || kept >= all {
				t.Errorf("with one of the %s too many, %d are kept: %v", what, kept, err)
			}
		}
		read, err := readNode(topology.IPv4)
		if err == nil && len(read.fdb) >= flood {
			t.Errorf("all %d forwarding entries are kept", len(read.fdb))
		}
		return err
	})
}
