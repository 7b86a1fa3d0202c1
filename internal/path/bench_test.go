package path_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
)

// BenchmarkUp tells how long labs take to come up, and the limit for it in
// seconds: what somebody waits for before anything is measured.
func BenchmarkUp(b *testing.B) {
	const (
		kernel   = "host routed vxlan vxlan-dev macvlan"
		switches = " bgp ovs-vxlan:datapath=netdev ovs-geneve:datapath=netdev ovs-vlan:datapath=netdev ovs-qinq:datapath=netdev"
	)
	for _, c := range []struct {
		name, paths string
		hosts       int
		limit       time.Duration
	}{
		{"kernel", kernel, 2, time.Second},
		{"switches", kernel + switches, 2, 8 * time.Second},
		{"hosts=50", "bgp:reflector=1 vxlan", 50, time.Minute},
	} {
		b.Run(c.name, func(b *testing.B) {
			testenv.Root(b)
			o := lab.Options{Paths: strings.Fields(c.paths), Hosts: c.hosts, Program: testenv.Program(b)}
			for b.Loop() {
				o.Name = testenv.LabName()
				l, err := lab.Up(context.Background(), o)
				if err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := l.Down(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			b.ReportMetric(0, "ns/op") // not shown: seconds are
			b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/up")
			b.ReportMetric(c.limit.Seconds(), "s/limit")
		})
	}
}
