package topology_test

import (
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/testenv"
)

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
		for _, e := range all {
			if e.HardwareAddr[0] == 2 {
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
		return nil
	})
}
