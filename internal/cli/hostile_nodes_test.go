package cli

import (
	"context"
	"errors"
	"io"
	"net/netip"
	"time"

	"github.com/venturi-net/venturi/internal/display"
	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/discover"
	"github.com/venturi-net/venturi/internal/fastpath/node"
	"github.com/venturi-net/venturi/internal/fastpath/shadow"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/fleet"
	"github.com/venturi-net/venturi/internal/kube"
	"github.com/venturi-net/venturi/internal/kube/cni"
	"github.com/venturi-net/venturi/internal/mesh"
	"github.com/venturi-net/venturi/internal/mesh/meshreport"
	"github.com/venturi-net/venturi/internal/testenv/plain"
	"github.com/venturi-net/venturi/internal/tune/cluster"
	"github.com/venturi-net/venturi/internal/watch"
	"github.com/venturi-net/venturi/result"
)

// hostileStatus is that of a fast path for a version of IP.
func hostileStatus() node.Status {
	count := fastpath.FlowCount{Flows: 3, Carried: 1, Learning: 1}
	return tainted(node.Status{
		Enabled: true, Running: true, Config: &fastpath.Config{Devices: topology.DeviceNames{Wire: "eth0"}},
		State: &fastpath.State{
			Unreplied: "why", Uncarried: []fastpath.Uncarried{{What: "what", Why: "why"}}, Refused: []topology.Refusal{{Device: "d", Reason: "why"}},
			Epochs:   &fastpath.Epochs{Counts: map[topology.Cause]uint64{"rules": 2}, Last: "rules"},
			Counters: &fastpath.BypassedCounters{Tunnels: []string{"t"}, Bridges: []string{"b"}},
		},
		Pods:  []fastpath.PodFlows{{Device: "d", Addr: netip.MustParseAddr("10.244.1.2"), FlowCount: count}},
		Peers: []fastpath.PeerFlows{{Addr: "addr", FlowCount: count}},
	})
}

// hostileFastPath are the printers of "venturi fastpath". What is printed at its end has no names.
func hostileFastPath() map[string]func(io.Writer) error {
	plan := func(kind string) *discover.Plan {
		p := tainted(discover.Plan{
			Wire: "eth0", Layers: "layers", Tunnel: "t", Tunnels: []string{"t", "u", "v"}, Unreplied: "why", Uncarried: []fastpath.Uncarried{{What: "what", Why: "why"}},
			Counters: &fastpath.BypassedCounters{Tunnels: []string{"t"}, Bridges: []string{"b"}}, Pods: []discover.PlannedPod{{Device: "d", Addr: "a", Outlook: discover.Carried, Reason: "why"}},
			Peers: []discover.PlannedPeer{{Device: "d", Outlook: discover.Carried, Reason: "why"}}, LeftAlone: []topology.Refusal{{Device: "d", Reason: "why"}},
		})
		p.Kind = kind
		return &p
	}
	off := plan(fastpath.VXLAN)
	off.Off = plain.Hostile
	status := hostileStatus()
	six := hostileStatus()
	status.IPv6 = &six
	report, stats, state := display.NewFastPathReport(status), display.NewFastPathStats(status, 1), *status.State
	state.Off = plain.Hostile
	report.IPv6.State = &state
	found := tainted(shadow.Result{Flows: 1, Differences: []shadow.Mismatch{{Direction: "out", Field: "field", Flow: "flow", Expected: "00", Actual: "20"}}})
	all := map[string]func(io.Writer) error{
		"fastpath plan, off":      func(w io.Writer) error { return display.PrintFastPathPlan(w, off) },
		"fastpath plan --json":    func(w io.Writer) error { return display.PrintJSON(w, off) },
		"fastpath status":         func(w io.Writer) error { return report.Print(w) },
		"fastpath status --json":  func(w io.Writer) error { return display.PrintJSON(w, report) },
		"fastpath status --watch": func(w io.Writer) error { return report.PrintRate(w, display.FastPathReport{}, time.Second) },
		"fastpath stats":          func(w io.Writer) error { return stats.Print(w) },
		"fastpath stats --json":   func(w io.Writer) error { return display.PrintJSON(w, stats) },
		"fastpath shadow":         func(w io.Writer) error { return display.PrintShadow(w, found) },
		"fastpath shadow --json":  func(w io.Writer) error { return display.PrintJSON(w, found) },
		"fastpath enable":         clearly(func(w io.Writer) { display.PrintFastPathState(w, *status.State) }),
		"fastpath enable, off":    clearly(func(w io.Writer) { display.PrintFastPathState6(w, state) }),
	}
	for _, kind := range []string{fastpath.VXLAN, fastpath.VXLAN6, fastpath.Geneve, fastpath.IPIP, fastpath.Routed, fastpath.Routed6} {
		all["fastpath plan, "+kind] = func(w io.Writer) error { return display.PrintFastPathPlan(w, plan(kind)) }
	}
	return all
}

// hostileCluster are the printers of what concerns many nodes.
func hostileCluster() map[string]func(io.Writer) error {
	change := cluster.ObjectChange{Object: cni.Object{Resource: "daemonsets", Namespace: "ns", Name: "name"}, Restarts: []string{"restart"}, Why: "why", Command: "command",
		Fields: []cluster.FieldChange{{Path: cluster.FieldPath{"a"}, Old: "1", New: "2", Owner: "owner"}}}
	change = tainted(change)
	change.Fields[0].Old = plain.Hostile
	change.Diff = "-a: \x1b[2J1\n"
	reply := tainted(fleet.Reply{Stdout: []byte("text\n")})
	reply.Machine.Name = plain.Hostile
	unread := tainted(kube.UnreadObject{Reason: "why"})
	tuning := &cluster.Tuning{Replies: []fleet.Reply{reply},
		Plan: &cluster.Plan{Planned: hostilePlan(), Changes: []cluster.ObjectChange{change}, ByHand: []cluster.ObjectChange{change}, Unread: []kube.UnreadObject{unread}}}
	done := &cluster.Result{Txn: 1, Changes: []cluster.ObjectChange{change}, Replies: []fleet.Reply{reply}, Restarts: []string{plain.Hostile}}
	undone := tainted(cluster.UndoResult{Objects: []cluster.FieldOutcome{{Reason: "why"}}, Nodes: []cluster.NodeOutcome{{Node: "n", Text: "text", Error: "error"}}})
	level, err := kube.Options{Level: kube.Node, Namespace: plain.Hostile}, 1.0
	survey := tainted(mesh.Survey{Version: mesh.ReportVersion, Command: []string{"mesh"}, Network: "pods", Passes: 1, Rounds: 1, Nodes: []mesh.MemberView{{Name: "a", Zone: "z"}, {Name: "b"}},
		Loads: []mesh.LoadReport{{Load: "tcp_lat", Metric: result.OneWay, Median: &err, Nodes: []mesh.NodeEffect{{Node: 0, Ratio: 2, Slow: true}, {Node: 1, Ratio: 1}}, Pairs: []mesh.PairEffect{{From: 0, To: 1, Value: 1, Ratio: 2, Slow: true}}}},
		Lost:  []mesh.LostNode{{Name: "c", Reason: "why"}}, Broken: []mesh.BrokenPair{{From: "a", To: "b", Load: "tcp_lat", Reason: "why"}}}, "Metric")
	all := map[string]func(io.Writer) error{
		"kubectl venturi tune --plan":  tuning.Print,
		"kubectl venturi tune --apply": done.Print,
		"kubectl venturi undo":         func(w io.Writer) error { return cluster.PrintUndone(w, []cluster.UndoResult{undone}) },
		"kubectl venturi rbac": func(w io.Writer) error {
			_, err := io.WriteString(w, level.TuneRBAC(plain.Hostile, nil, true)+level.MeshRBAC(plain.Hostile)+level.NodesRBAC(plain.Hostile))
			return err
		},
		"watch": func(w io.Writer) error {
			runs := []error{nil, errors.New(plain.Hostile)} // the first of a service must be measured
			s := watch.New(func(context.Context) (*result.Record, error) {
				err := runs[0]
				runs = runs[1:]
				return &result.Record{Header: result.Header{Started: time.Now()}}, err
			}, watch.Options{Runs: len(runs), Interval: time.Millisecond, Log: w})
			return s.Run(context.Background())
		},
	}
	for _, format := range meshreport.Formats() {
		all["mesh --format "+format] = func(w io.Writer) error { return meshreport.Write(w, &survey, format, 80) }
	}
	return all
}
