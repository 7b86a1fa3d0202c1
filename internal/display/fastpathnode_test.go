package display

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/node"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
)

// A status says whose flows there are and which share of packets was carried, and a rate what
// became of the packets since.
func TestFastPathReport(t *testing.T) {
	count := fastpath.FlowCount{Flows: 12, Carried: 10, Translated: 4}
	before := FastPathReport{Enabled: true, Running: true, State: &fastpath.State{Pods: 1, Peers: 1}, Flows: 12, Carried: 0.75,
		Packets: map[string]int64{"carried_out": 200, "carried_in": 100, "slow_unknown": 100},
		Pods:    []fastpath.PodFlows{{Device: "veth0", Addr: netip.MustParseAddr("10.244.1.2"), FlowCount: count}},
		Peers:   []fastpath.PeerFlows{{Addr: "192.0.10.2", FlowCount: count}}}
	now, off, gone, anew, bypassed, slow := before, before, before, before, before, before
	bypassed.Config = &fastpath.Config{Devices: topology.DeviceNames{Wire: "eth0"}}
	bypassed.State = &fastpath.State{Pods: 1, Peers: 1, Counters: &fastpath.BypassedCounters{Bridges: []string{"cni0"}, Veths: 1}}
	bypassed.Packets, bypassed.Peers = nil, nil
	slow.Packets, slow.Pods, slow.Peers = nil, nil, nil
	slow.State = &fastpath.State{Pods: 1, Peers: 1, Unreplied: "a rule asks", Uncarried: []fastpath.Uncarried{{What: "traffic of some kind", Why: "it may not"}}}
	slowAndOff := slow
	slowAndOff.State = &fastpath.State{Off: "there are IPsec policies", Uncarried: slow.State.Uncarried}
	anew.Packets = map[string]int64{"carried_out": 30, "carried_in": 30, "slow_unknown": 120}
	now.Packets = map[string]int64{"carried_out": 500, "carried_in": 400, "slow_unknown": 110, "slow_flags": 190}
	off.State = &fastpath.State{Off: "there are IPsec policies"}
	gone.Running = false
	dual, dualBefore := now, before
	six, sixBefore := before, before
	six.Packets = map[string]int64{"carried_out": 300, "carried_in": 200, "slow_not_ipv6": 100}
	sixBefore.Packets = map[string]int64{"carried_out": 200, "carried_in": 100}
	dual.IPv6, dualBefore.IPv6 = &six, &sixBefore
	dual.Config, dualBefore.Config = bypassed.Config, bypassed.Config
	lately := time.Date(2026, 5, 4, 13, 2, 1, 0, time.Local)
	epochs, epochsBefore, restarted := before, before, before
	epochs.Packets, epochs.Pods, epochs.Peers = nil, nil, nil
	epochsBefore.State = &fastpath.State{Epochs: &fastpath.Epochs{Counts: map[topology.Cause]uint64{"start": 1, "routes": 3}, Last: "routes", Time: lately.Add(-time.Minute)}}
	epochs.State = &fastpath.State{Pods: 1, Peers: 1, Epochs: &fastpath.Epochs{Counts: map[topology.Cause]uint64{"start": 1, "routes": 3, "rules": 1}, Last: "rules", Time: lately}}
	more := epochs
	more.State = &fastpath.State{Epochs: &fastpath.Epochs{Counts: map[topology.Cause]uint64{"start": 1, "routes": 4, "rules": 3}, Last: "routes", Time: lately}}
	restarted.State = &fastpath.State{Epochs: &fastpath.Epochs{Counts: map[topology.Cause]uint64{"start": 1}, Last: "start", Time: lately}}
	sixEpochs, sixEpochsBefore := epochs, epochsBefore
	sixEpochs.IPv6, sixEpochsBefore.IPv6, sixEpochs.Config = &more, &epochsBefore, bypassed.Config
	busy := before // one pod has other flows, another has come
	busy.Pods = []fastpath.PodFlows{
		{Device: "veth0", Addr: netip.MustParseAddr("10.244.1.2"), FlowCount: fastpath.FlowCount{Flows: 12, Carried: 11, OneWay: 3, Learning: 1, Translated: 4}},
		{Device: "veth1", Addr: netip.MustParseAddr("10.244.1.3"), FlowCount: fastpath.FlowCount{Flows: 7, Stale: 7}},
	}
	crowd := before
	for i := range 12 {
		crowd.Peers = append(crowd.Peers, fastpath.PeerFlows{Addr: fmt.Sprintf("192.0.10.%d", 100+i), FlowCount: fastpath.FlowCount{Flows: 1 + i, Carried: 1 + i}})
	}
	for _, c := range []struct {
		name, want string
		print      func(out *bytes.Buffer) error
	}{
		{"report", `carried: pods 1, peers 1
share of packets that was carried: 75.0 %

POD    ADDRESS     FLOWS  CARRIED  TRANSLATED
veth0  10.244.1.2  12     10       4

PEER        FLOWS  CARRIED  TRANSLATED
192.0.10.2  12     10       4

SINCE IT WAS ENABLED             PACKETS  INTO PODS
carried out of its pod           200      
carried into its pod             100      
slow: its flow is not known yet  100      
`, func(out *bytes.Buffer) error { return before.Print(out) }},
		{"kinds that stay slow", "carried: pods 1, peers 1\none-way UDP stays on the slow path: a rule asks\ntraffic of some kind stays on the slow path: it may not\n",
			func(out *bytes.Buffer) error { return slow.Print(out) }},
		{"all is slow", "nothing is carried: there are IPsec policies\n", func(out *bytes.Buffer) error { return slowAndOff.Print(out) }},
		{"counters that miss packets", `carried: pods 1, peers 1

POD    ADDRESS     FLOWS  CARRIED  TRANSLATED
veth0  10.244.1.2  12     10       4

MISSES CARRIED PACKETS  WHAT
cni0                    all statistics, and tcpdump
veth of pods (1)        statistics and tcpdump of packets into the pod (TX)
IP statistics           of this node, such as ForwDatagrams (nstat, /proc/net/snmp)
all packets are counted, and seen by tcpdump, at: eth0, the devices in pods
`, func(out *bytes.Buffer) error { return bypassed.Print(out) }},
		{"rate", "carried 300/s (75.0 %), slow 100/s, flows 12; main reason for slow packets: opens or ends a connection\n",
			func(out *bytes.Buffer) error { return now.PrintRate(out, before, 2*time.Second) }},
		{"changed pods", `carried 0/s (0.0 %), slow 0/s, flows 12
  pod 10.244.1.3 (veth1): flows 7 (+7), carried 0, stale 7
  pod 10.244.1.2 (veth0): flows 12, carried 11, one way 3, learning 1, translated 4
`, func(out *bytes.Buffer) error { return busy.PrintRate(out, before, time.Second) }},
		{"many changed peers", `carried 0/s (0.0 %), slow 0/s, flows 12
  peer 192.0.10.111: flows 12 (+12), carried 12
  peer 192.0.10.110: flows 11 (+11), carried 11
  peer 192.0.10.109: flows 10 (+10), carried 10
  peer 192.0.10.108: flows 9 (+9), carried 9
  peer 192.0.10.107: flows 8 (+8), carried 8
  peer 192.0.10.106: flows 7 (+7), carried 7
  peer 192.0.10.105: flows 6 (+6), carried 6
  peer 192.0.10.104: flows 5 (+5), carried 5
  peer 192.0.10.103: flows 4 (+4), carried 4
  peer 192.0.10.102: flows 3 (+3), carried 3
  flows of 2 more pods and peers have changed
`, func(out *bytes.Buffer) error { return crowd.PrintRate(out, before, time.Second) }},
		{"rates of both versions", "IPv4: carried 300/s (75.0 %), slow 100/s, flows 12; main reason for slow packets: opens or ends a connection\n" +
			"IPv6: carried 100/s (66.7 %), slow 50/s, flows 12; main reason for slow packets: not IPv6\n",
			func(out *bytes.Buffer) error { return dual.PrintRate(out, dualBefore, 2*time.Second) }},
		{"rate since IPv6 came", "IPv4: carried 300/s (75.0 %), slow 100/s, flows 12; main reason for slow packets: opens or ends a connection\n" +
			"IPv6: carried 250/s (83.3 %), slow 50/s, flows 12; main reason for slow packets: not IPv6\n" +
			"  pod 10.244.1.2 (veth0): flows 12 (+12), carried 10, translated 4\n  peer 192.0.10.2: flows 12 (+12), carried 10, translated 4\n",
			func(out *bytes.Buffer) error { return dual.PrintRate(out, before, 2*time.Second) }},
		{"epochs", "carried: pods 1, peers 1\nepochs since the daemon started: 5 (routes 3, rules 1, start 1); the last at 2026-05-04 13:02:01 (rules)\n",
			func(out *bytes.Buffer) error { return epochs.Print(out) }},
		{"a new epoch", "new epoch at 13:02:01 (rules): all flows are learned anew\ncarried 0/s (0.0 %), slow 0/s, flows 12\n",
			func(out *bytes.Buffer) error { return epochs.PrintRate(out, epochsBefore, time.Second) }},
		{"new epochs", "3 new epochs, the last at 13:02:01 (rules 2, routes 1): all flows are learned anew\ncarried 0/s (0.0 %), slow 0/s, flows 12\n",
			func(out *bytes.Buffer) error { return more.PrintRate(out, epochs, time.Second) }},
		{"no new epoch", "carried 0/s (0.0 %), slow 0/s, flows 12\n", func(out *bytes.Buffer) error { return epochs.PrintRate(out, epochs, time.Second) }},
		{"the daemon started anew", "new epoch at 13:02:01 (start): all flows are learned anew\ncarried 0/s (0.0 %), slow 0/s, flows 12\n",
			func(out *bytes.Buffer) error { return restarted.PrintRate(out, epochsBefore, time.Second) }},
		{"new epochs of both versions", "IPv4: new epoch at 13:02:01 (rules): all flows are learned anew\nIPv4: carried 0/s (0.0 %), slow 0/s, flows 12\n" +
			"IPv6: 4 new epochs, the last at 13:02:01 (rules 3, routes 1): all flows are learned anew\nIPv6: carried 0/s (0.0 %), slow 0/s, flows 12\n",
			func(out *bytes.Buffer) error { return sixEpochs.PrintRate(out, sixEpochsBefore, time.Second) }},
		{"end", `the fast path is disabled; nothing of it is left

SINCE IT WAS ENABLED    PACKETS  INTO PODS
carried out of its pod  7        

IPv6:

SINCE IT WAS ENABLED    PACKETS  INTO PODS
carried out of its pod  9        
slow: not IPv6          2        0
`, func(out *bytes.Buffer) error {
			return PrintFastPathEnd(out, node.FamilyStats{IPv4: []fastpath.Stat{{Count: bpf.CarriedOut, Packets: 7}},
				IPv6: []fastpath.Stat{{Count: bpf.CarriedOut, Packets: 9, IPv6: true}, {Count: bpf.SlowNotIPv4, Packets: 2, IPv6: true}}})
		}},
		{"nothing", "carried 0/s (0.0 %), slow 0/s, flows 12\n", func(out *bytes.Buffer) error { return before.PrintRate(out, before, time.Second) }},
		{"off", "carried 0/s (0.0 %), slow 0/s, flows 12; nothing is carried: there are IPsec policies\n",
			func(out *bytes.Buffer) error { return off.PrintRate(out, before, time.Second) }},
		{"enabled anew", "carried 60/s (33.3 %), slow 120/s, flows 12; main reason for slow packets: its flow is not known yet\n",
			func(out *bytes.Buffer) error { return anew.PrintRate(out, before, time.Second) }},
		{"gone", "nothing is carried: the daemon has ended\n", func(out *bytes.Buffer) error { return gone.PrintRate(out, before, time.Second) }},
	} {
		var out bytes.Buffer
		if err := c.print(&out); err != nil || out.String() != c.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", c.name, err, &out, c.want)
		}
	}
}
