package topology_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/testenv"
)

// Of devices and routes, so many are listed at most: with more, an error says so. Of neighbours it is so many of each device, and
// four times as many of all.
func TestLimits(t *testing.T) {
	n := testenv.Netns(t)
	testenv.Shell(t, n.Path(), `
		ip link add p0 type veth peer name q0
		ip link set p0 up
		ip link set q0 up
		for i in 1 2 3; do ip route add 192.0.2.$i dev q0 table $i; done
		for i in 1 2 3 4 5 6 7 8; do ip neigh add 192.0.2.$i lladdr 02:00:00:00:00:0$i dev q0; done
		ip neigh add 192.0.2.1 lladdr 02:00:00:00:00:01 dev p0`)
	testenv.InNetns(t, n.Path(), func() error {
		routes, err := topology.Listed["routes"](100)
		if err != nil || routes < 3 {
			return fmt.Errorf("%d routes are listed: %w", routes, err)
		}
		for _, c := range []struct {
			what       string
			most, want int
			err        string
		}{
			{"devices", 3, 3, ""},
			{"devices", 2, 2, "more than 2 devices"},
			{"routes", routes, routes, ""},
			{"routes", routes - 1, 0, fmt.Sprintf("more than %d IPv4 routes", routes-1)},
			{"neighbours", 8, 9, ""},
			{"neighbours", 7, 8, ""},
			{"neighbours", 2, 0, "more than 8 neighbours, 8 or more of them on q0"},
		} {
			var many topology.TooManyError
			if n, err := topology.Listed[c.what](c.most); c.err == "" && (n != c.want || err != nil) {
				t.Errorf("of %s, %d at most, %d are listed, want %d: %v", c.what, c.most, n, c.want, err)
			} else if c.err != "" && (!errors.As(err, &many) || !strings.Contains(many.Error(), c.err)) {
				t.Errorf("of %s, %d at most: %v, want %q", c.what, c.most, err, c.err)
			}
		}
		return nil
	})
}

// Of a bridge that is flooded with MACs, so much is listed as says that it is; and of another one, and of a tunnel,
// everything. Those of the tunnel that is a bridge's port are no entries of the bridge.
func TestFloodedFDB(t *testing.T) {
	const flood = topology.MaxListedFDB + 5000
	n := testenv.Netns(t)
	testenv.Shell(t, n.Path(), `
		for i in 0 1; do
			ip link add br$i type bridge
			ip link add p$i type veth peer name q$i
			ip link set p$i master br$i up
		done
		bridge fdb add 02:01:00:00:00:01 dev p1 master static
		ip link add v0 type vxlan id 1 dstport 8472 local 192.0.2.1 nolearning
		bridge fdb add 02:02:00:00:00:01 dev v0 dst 192.0.2.2
		ip link set v0 master br1`)
	testenv.FloodFDB(t, n.Path(), "p0", flood)
	testenv.InNetns(t, n.Path(), func() error {
		all, err := topology.ListFDB()
		if err != nil {
			return err
		}
		of := map[string]int{} // by the second byte of the MAC: whose it is
		seen := map[string]bool{}
		for _, e := range all {
			key := fmt.Sprint(e.HardwareAddr, e.Vlan) // a kernel with VLANs has an entry for that of the port, too
			if e.HardwareAddr[0] == 2 && !seen[key] && (e.Vlan == 0 || e.HardwareAddr[1] == 0) {
				seen[key] = true
				of[e.HardwareAddr[:2].String()]++
			}
		}
		if of["02:00"] < topology.MaxListedFDB-100 || of["02:00"] > topology.MaxListedFDB || of["02:01"] != 1 || of["02:02"] != 1 {
			t.Errorf("listed are %v, want %d of the flood at most, and one each of the other bridge and the tunnel", of, topology.MaxListedFDB)
		}
		flooded, err := netlink.LinkByName("br0")
		if err != nil {
			return err
		}
		if read, err := topology.FDBListed(flooded.Attrs().Index); err != nil || read > topology.MaxListedFDB {
			t.Errorf("of %d entries %d are read, want %d at most: %v", flood, read, topology.MaxListedFDB, err)
		}
		if read, err := topology.FDBListed(flooded.Attrs().Index + 100); err != nil || read != 0 {
			t.Errorf("a bridge that has just gone has %d entries: %v", read, err)
		}
		return nil
	})
}
