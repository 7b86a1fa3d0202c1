package fastpath_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/manypods"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/testenv"
)

// The daemon says what has begun each epoch, and counts one for each change of rules or routes. A
// change that the next one finds late would be one too many there.
func TestEpochCauses(t *testing.T) {
	n := newNode(t, fastpath.Routed, 2, 2)
	n.awaitDevices(t)
	begun := time.Now()
	n.serve(t)
	n.carrying(t)
	epochs := func() fastpath.Epochs {
		if e := n.state().Epochs; e != nil {
			return *e
		}
		return fastpath.Epochs{}
	}
	eventually(t, "the epochs of the start are known", func() bool { return epochs().Counts["start"] == 1 })
	for _, c := range []struct {
		cause  topology.Cause
		many   bool // it is announced in several parts
		change string
	}{
		{topology.Rules, false, "nft add table ip some"},
		{topology.Routes, false, "ip route add 198.51.100.0/24 dev wire"},
		{topology.Rules, false, "nft delete table ip some"},
		{topology.Routes, false, "ip rule add to 198.51.100.7 lookup main"},
		{topology.Neighbours, false, fmt.Sprintf("ip neigh replace %v lladdr 02:00:00:00:00:99 dev %s nud permanent", manypods.PodAddr(0), manypods.Device(0))},
		{topology.Devices, false, "ip link set wire group 7"},
		{topology.Sysctl, true, "echo 1 > /proc/sys/net/ipv4/ip_forward"},
	} {
		before := epochs()
		testenv.Shell(t, n.Netns.Path(), c.change)
		eventually(t, fmt.Sprintf("%q begins an epoch", c.change), func() bool { return epochs().Total() > before.Total() })
		after := epochs()
		want := map[topology.Cause]uint64{c.cause: 1}
		since := after.Since(before).Counts
		delayed := since["delay"] > 0 // the audit of the rules was late, as this machine is busy
		delete(since, "delay")
		if c.many {
			want[c.cause] = since[c.cause]
		}
		if !maps.Equal(since, want) || after.Last != c.cause && !delayed || after.Time.Before(begun) || after.Time.After(time.Now()) {
			t.Errorf("%q has begun epochs of %v, want %v; the last one of %q at %v", c.change, since, want, after.Last, after.Time)
		}
	}
}

// Epochs are compared with those of before; after a new start, all of them are new.
func TestEpochsSince(t *testing.T) {
	at := time.Now()
	before := fastpath.Epochs{Counts: map[topology.Cause]uint64{"start": 1, "rules": 4}, Last: "rules", Time: at}
	for _, c := range []struct {
		name  string
		now   fastpath.Epochs
		want  map[topology.Cause]uint64
		total uint64
	}{
		{"none", before, map[topology.Cause]uint64{}, 0},
		{"some", fastpath.Epochs{Counts: map[topology.Cause]uint64{"start": 1, "rules": 6, "routes": 1}, Time: at.Add(1)}, map[topology.Cause]uint64{"rules": 2, "routes": 1}, 3},
		{"a new start", fastpath.Epochs{Counts: map[topology.Cause]uint64{"start": 1}, Time: at.Add(1)}, map[topology.Cause]uint64{"start": 1}, 1},
	} {
		if since := c.now.Since(before); !maps.Equal(since.Counts, c.want) || since.Total() != c.total {
			t.Errorf("%s: %v, %d in all", c.name, since.Counts, since.Total())
		}
	}
}
