package discover

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/verr"
)

// A list that is too long is an error that names what is too many, and says what to do; any other is as it was.
func TestRefusesTooMany(t *testing.T) {
	var said *verr.Error
	if err := refuseTooMany(fmt.Errorf("list: %w", topology.TooManyError("too many of x0"))); !errors.As(err, &said) || said.Reason != "too many of x0" {
		t.Error(err)
	}
	if err := refuseTooMany(unix.EPERM); err != unix.EPERM {
		t.Error(err)
	}
}

// Of a bridge that is flooded with MACs, no more forwarding entries are kept than the daemon looks at, and of a device
// with many neighbours no more of these: the others are planned for.
func TestLimits(t *testing.T) {
	n := testenv.Netns(t)
	testenv.Shell(t, n.Path(), `
		ip link add br0 type bridge
		ip link add p0 type veth peer name q0
		ip link set p0 master br0 up
		ip link add x0 type veth peer name y0
		ip link set x0 up
		ip neigh add 192.0.2.1 lladdr 02:00:00:00:00:01 dev p0
		awk 'BEGIN { for (i = 0; i < 70000; i++) printf "neigh add 10.%d.%d.%d lladdr 02:00:00:00:00:01 dev x0\n", i/65536, i/256%256, i%256 }' | ip -batch -`)
	const flood, neighbours = 80_000, 70_000
	testenv.FloodFDB(t, n.Path(), "p0", flood)
	testenv.InNetns(t, n.Path(), func() error {
		read, err := readNode(topology.IPv4)
		if err == nil && len(read.fdb) >= flood {
			t.Errorf("all %d forwarding entries are kept", len(read.fdb))
		}
		if err == nil && (len(read.neighbours) >= neighbours || !slices.ContainsFunc(read.neighbours, func(e netlink.Neigh) bool { return e.IP.String() == "192.0.2.1" })) {
			t.Errorf("%d neighbours are kept, want less than %d, and that of another device", len(read.neighbours), neighbours)
		}
		return err
	})
}
