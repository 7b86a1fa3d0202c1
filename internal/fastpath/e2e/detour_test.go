package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
)

// What passes another network namespace on its way is for that to judge, packet by
// packet: a rule that begins to drop there takes hold, as it does without a fast path.
func TestFastPathLeavesDetours(t *testing.T) {
	requireFastPath(t)
	requireTools(t)
	l, flows := steadyLab(t, 0, twins(withTunnels(basicFastPaths...))...)
	paths := watchPaths(t, l, flows, 0, "")
	checkWorking(t, paths)
	for _, w := range paths {
		t.Run(w.Path, func(t *testing.T) {
			between := detour(t, l, w)
			all := []watched{w}
			waitAll(t, w.expect(delivered, delivered), time.Now())
			time.Sleep(2 * time.Duration(minPackets) * pace) // long enough to learn from
			shell(t, l.Machines[0], all, between.Replace(`nsenter --net={between} nft 'table ip deny { chain c { type filter hook forward priority 0; drop; }; }'`))
			dropping := time.Now()
			settled := waitAll(t, w.expect(dropped, dropped), dropping)
			for _, expected := range w.expect(dropped, dropped) {
				if took := expected.way.last(delivered, dropping, settled); took > changeLimit {
					t.Errorf("%s: delivered for %v more", expected.name, took)
				}
			}
			shell(t, l.Machines[0], all, between.Replace(`nsenter --net={between} nft delete table ip deny`))
			waitAll(t, w.expect(delivered, delivered), time.Now())
		})
	}
}

// detour leads what the first machine's pod of a path sends, and what it is sent, through
// a network namespace of its own, {between} in scripts.
func detour(t *testing.T, l *lab.Lab, w watched) (words *strings.Replacer) {
	t.Helper()
	writer, err := netcfg.Owned(l.Name)
	testenv.Must(t, err)
	m := l.Machines[0]
	n, err := writer.Create(writer.Name(m.Name + ".between" + w.words.Replace("{n}")))
	testenv.Must(t, err)
	words = strings.NewReplacer("{between}", n.Path())
	do := func(script string) { shell(t, m, []watched{w}, words.Replace(script)) }
	t.Cleanup(func() {
		do(`ip rule del pref 10{n}; ip rule del pref 11{n}`)
		n.Close()
		testenv.Must(t, writer.Delete(n.Name()))
	})
	do(`ip link add pod{n} type veth peer name pod netns {between}
		ip link add net{n} type veth peer name net netns {between}
		echo 0 > /proc/sys/net/ipv4/conf/all/rp_filter
		for d in pod{n} net{n}; do
			echo 0 > /proc/sys/net/ipv4/conf/$d/rp_filter
			ip link set $d up
		done
		ip addr add 10.99.{n}.1/30 dev pod{n}
		ip addr add 10.99.{n}.5/30 dev net{n}
		nsenter --net={between} sh -euc 'ip link set pod up; ip link set net up
			echo 1 > /proc/sys/net/ipv4/ip_forward
			echo 0 > /proc/sys/net/ipv4/conf/all/rp_filter
			ip addr add 10.99.{n}.2/30 dev pod; ip addr add 10.99.{n}.6/30 dev net
			ip route add {pod} via 10.99.{n}.1; ip route add {peer} via 10.99.{n}.5'
		ip route add {peer} via 10.99.{n}.2 table 10{n}
		ip route add {pod} via 10.99.{n}.6 table 11{n}
		ip rule add iif {gate} to {peer} lookup 10{n} pref 10{n}
		ip rule add iif {out} to {pod} lookup 11{n} pref 11{n}`)
	testenv.InNetns(t, n.Path(), func() error { return runScript("ip -4 route get " + w.Server().Addr.String()) })
	return words
}
