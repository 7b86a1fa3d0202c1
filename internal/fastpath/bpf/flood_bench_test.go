package bpf_test

import (
	"testing"

	"github.com/cilium/ebpf"
	"github.com/gopacket/gopacket/layers"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/testenv"
)

// BenchmarkFlood tells what the programs cost a packet of a new flow, out of a pod and into
// one, in nanoseconds, beside what a carried packet costs. 100,000 new flows a second, of one
// packet each, take that many times the sum.
func BenchmarkFlood(b *testing.B) {
	testenv.Root(b)
	for _, kind := range kinds {
		b.Run(kind, func(b *testing.B) {
			r := newRig(b, kind, layers.IPProtocolUDP)
			r.put(b)
			stats, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
			check(b, err)
			defer stats.Close()
			out, in := r.podPacket(), r.received(kind)
			cost := map[string]float64{}
			for name, new := range map[string]bool{"new": true, "carried": false} {
				for _, way := range []struct {
					name    string
					program *ebpf.Program
					device  int
					packet  *packet
					port    *layers.UDPPort
				}{{"out", r.objs.FromPod, r.pod, out, &out.udp.DstPort}, {"in", r.objs.FromWire, r.wire, in, &in.udp.SrcPort}} {
					before, err := way.program.Stats()
					check(b, err)
					for i := range 20000 {
						if new {
							*way.port = layers.UDPPort(10000 + i)
						} else {
							*way.port = 5000
						}
						r.run(b, way.program, way.device, way.packet.bytes(b))
					}
					after, err := way.program.Stats()
					check(b, err)
					cost[name+"-"+way.name] = float64((after.Runtime - before.Runtime).Nanoseconds()) / float64(after.RunCount-before.RunCount)
				}
			}
			for b.Loop() {
			}
			for name, ns := range cost {
				b.ReportMetric(ns, "ns/"+name)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}
