package topology_test

import (
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
)

// Repeated notifications are not reported as changes; real changes are, also right after a
// repetition.
func TestWatchOfWhatIsSaidAgain(t *testing.T) {
	n := testenv.Netns(t)
	testenv.Must(t, n.AddBridge("br0", nil, 1500))
	testenv.Must(t, netcfg.AddVeth(netcfg.VethEnd{In: n, Name: "a0"}, netcfg.VethEnd{In: n, Name: "b0"}, 1500))
	testenv.Shell(t, n.Path(), `ip link set br0 up; ip link set a0 up; ip link set b0 master br0 up
		ip addr add 192.0.2.1/24 dev a0 valid_lft 5000 preferred_lft 5000
		ip neigh add 192.0.2.2 lladdr 02:00:00:00:00:01 dev a0 nud stale`)
	news := make(chan topology.Changes, 10000)
	watch(t, n, func(c topology.Changes) { news <- c })
	const forget = "ip neigh add 192.0.2.2 lladdr 02:00:00:00:00:01 dev a0 nud stale"
	for _, c := range []struct{ again, real, back string }{
		{
			"bridge link set dev b0 learning on; ip link set b0 type bridge_slave learning on",
			"bridge link set dev b0 state 0", "bridge link set dev b0 state 3",
		},
		{"ip link set b0 type bridge_slave isolated off", "ip link set b0 type bridge_slave isolated on", "ip link set b0 type bridge_slave isolated off"},
		{"ip link set br0 type bridge ageing_time 30000", "ip link set br0 type bridge ageing_time 100", "ip link set br0 type bridge ageing_time 30000"},
		{"ip link set br0 promisc on; ip link set br0 promisc off", "ip link set br0 address 02:00:00:00:00:77", "true"},
		{"ip link set a0 promisc on; ip link set a0 promisc off", "ip link set a0 group 7", "ip link set a0 group 0"},
		{"ip addr replace 192.0.2.1/24 dev a0 valid_lft 600$i preferred_lft 600$i", "ip addr del 192.0.2.1/24 dev a0", "ip addr add 192.0.2.1/24 dev a0 valid_lft 5000 preferred_lft 5000; " + forget},
		{
			"for s in delay probe reachable stale; do ip neigh replace 192.0.2.2 lladdr 02:00:00:00:00:01 dev a0 nud $s; done",
			"ip neigh replace 192.0.2.2 lladdr 02:00:00:00:00:02 dev a0 nud stale", "ip neigh replace 192.0.2.2 lladdr 02:00:00:00:00:01 dev a0 nud stale",
		},
		{"ip neigh replace 192.0.2.2 lladdr 02:00:00:00:00:01 dev a0 nud reachable", "ip neigh replace 192.0.2.2 dev a0 nud failed", "ip neigh del 192.0.2.2 dev a0; " + forget},
		{"ip neigh replace 192.0.2.2 lladdr 02:00:00:00:00:01 dev a0 nud reachable", "ip neigh del 192.0.2.2 dev a0", forget},
	} {
		quiet(news)
		// Repeat five times, so that a report of a repetition exceeds the expected change. Those that come together are
		// told as one, so each is awaited.
		testenv.Shell(t, n.Path(), "for i in 1 2 3 4 5; do "+c.again+"; done; ip rule add pref 100 lookup main")
		got := ofRules(t, news, 1)
		testenv.Shell(t, n.Path(), "ip rule del pref 100")
		if got += ofRules(t, news, 1); got != 2 {
			t.Errorf("%s: %d changes of rules were told, of another 2", c.again, got)
		}
		testenv.Shell(t, n.Path(), c.real)
		await(t, news, rules)
		testenv.Shell(t, n.Path(), c.back)
	}
}

// The first message is judged by what was read when the watch began, and by what was read later if
// messages were lost meanwhile.
func TestFirstMessage(t *testing.T) {
	const as, address = "ip neigh replace 192.0.2.2 nud permanent dev a0 lladdr 02:00:00:00:00:0", "192.0.2.2"
	for _, c := range []struct {
		name, meanwhile string
		resync          bool
		want            topology.Changes
	}{
		{"the same", as + "1", false, 0},
		{"another", as + "2", false, rules},
		{"another, read again", as + "2", true, 0},
	} {
		n := testenv.Netns(t)
		testenv.Must(t, netcfg.AddVeth(netcfg.VethEnd{In: n, Name: "a0"}, netcfg.VethEnd{In: n, Name: "b0"}, 1500))
		testenv.Shell(t, n.Path(), "ip link set a0 up; "+as+"1")
		testenv.InNetns(t, n.Path(), func() error {
			got, err := topology.LateFilter(address, func() { testenv.Shell(t, n.Path(), c.meanwhile) }, c.resync)
			if got[0]&rules != c.want || got[1] != 0 {
				t.Errorf("%s: first %v, then %v; want %v, and nothing", c.name, got[0], got[1], c.want)
			}
			return err
		})
	}
}

// A MAC that moves back to a previous port is reported, and so is every other change of a
// forwarding entry.
func TestWatchOfMoves(t *testing.T) {
	n := testenv.Netns(t)
	testenv.Must(t, n.AddBridge("br0", nil, 1500))
	for _, port := range []string{"p0", "p1"} {
		testenv.Must(t, netcfg.AddVeth(netcfg.VethEnd{In: n, Name: port}, netcfg.VethEnd{In: n, Name: port + "x"}, 1500))
	}
	testenv.Shell(t, n.Path(), `for d in br0 p0 p1 p0x p1x; do ip link set $d up; done
		ip link set p0 master br0; ip link set p1 master br0
		ip link add v0 up type vxlan id 7 dstport 4789 local 192.0.2.1 nolearning
		bridge fdb add 02:00:00:00:00:08 dev p0 master static
		bridge fdb add 02:00:00:00:00:09 dev v0 dst 192.0.2.2`)
	news := make(chan topology.Changes, 1000)
	watch(t, n, func(c topology.Changes) { news <- c })
	for _, command := range []string{
		"bridge fdb replace 02:00:00:00:00:08 dev p1 master static",
		"bridge fdb replace 02:00:00:00:00:08 dev p0 master static",
		"bridge fdb replace 02:00:00:00:00:08 dev p1 master static",
		"bridge fdb replace 02:00:00:00:00:09 dev v0 dst 192.0.2.2 port 9999",
		"bridge fdb replace 02:00:00:00:00:09 dev v0 dst 192.0.2.2",
		"bridge fdb replace 02:00:00:00:00:09 dev v0 dst 192.0.2.2 vni 999",
		"bridge fdb replace 02:00:00:00:00:09 dev v0 dst 192.0.2.2 via br0",
		"bridge fdb replace 02:00:00:00:00:09 dev v0 dst 192.0.2.3 via br0",
	} {
		quiet(news)
		testenv.Shell(t, n.Path(), command)
		t.Log(command)
		await(t, news, topo)
	}
}

// ofRules waits for at least so many rule changes, and then until no more arrive.
func ofRules(t *testing.T, news <-chan topology.Changes, least int) (got int) {
	t.Helper()
	end := time.After(eventTimeout)
	for {
		calm := time.Duration(1<<63 - 1)
		if got >= least {
			calm = 100 * time.Millisecond
		}
		select {
		case c := <-news:
			if c&rules != 0 {
				got++
			}
		case <-time.After(calm):
			return got
		case <-end:
			t.Fatalf("after %v only %d changes of rules were told, of %d", eventTimeout, got, least)
		}
	}
}
