package compare

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

// fakeNetperf puts a netperf on PATH that prints what the real one does.
func fakeNetperf(t *testing.T, out string) {
	t.Helper()
	dir := t.TempDir()
	server := "#!/usr/bin/env python3\nimport socket,time\ns=socket.socket()\ns.setsockopt(socket.SOL_SOCKET,socket.SO_REUSEADDR,1)\ns.bind(('',12865))\ns.listen()\ntime.sleep(600)\n"
	for name, text := range map[string]string{
		"netperf":   "#!/bin/sh\ncat <<'EOF'\n" + out + "EOF\n",
		"netserver": server,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

const netperfMean = "ELAPSED_TIME=2.00\nTRANSACTION_RATE=18104.189\nLOCAL_SEND_CALLS=36212\nLOCAL_BYTES_SENT=36212\n" +
	"LOCAL_RECV_CALLS=36212\nLOCAL_BYTES_RECVD=36212\nREMOTE_RECV_CALLS=36212\nREMOTE_BYTES_RECVD=36212\nMEAN_LATENCY=55.18\n"

// A tool runs for as long as is asked for, and our loads as they do without.
func TestToolTime(t *testing.T) {
	p, err := Request{LoadTools: []string{"iperf3"}, Loads: []string{"tcp_bw"}, ToolTime: 10 * time.Second}.Plan()
	if err != nil {
		t.Fatal(err)
	}
	if ours, tools := p.Cells[0].Slice, p.Cells[1].Slice; tools != 10*time.Second || ours >= time.Second {
		t.Errorf("iperf3 runs for %v, and tcp_bw for %v", tools, ours)
	}
	if p, err = (Request{Paths: []string{"host"}, BesideTools: []string{"qperf"}, Loads: []string{"tcp_lat"}, ToolTime: 3 * time.Second}).Plan(); err != nil || p.Cells[0].Slice != 3*time.Second {
		t.Errorf("with qperf: %+v, %v", p.Cells, err)
	}
	for name, c := range map[string]struct {
		q   Request
		why string
	}{
		"no tool":    {Request{ToolTime: 2 * time.Second}, "none is named"},
		"a fraction": {Request{LoadTools: []string{"iperf3"}, ToolTime: 1500 * time.Millisecond}, "whole seconds"},
		"below":      {Request{LoadTools: []string{"iperf3"}, ToolTime: -time.Second}, "2s to 1m"},
		"long":       {Request{LoadTools: []string{"iperf3"}, ToolTime: 2 * time.Minute}, "2s to 1m"},
		"slices":     {Request{BesideTools: []string{"qperf"}, Slice: 2 * time.Second, ToolTime: 2 * time.Second}, "--slice says"},
	} {
		if _, err := c.q.Resolve(); verr.Code(err) != verr.Usage || !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v, want %q", name, err, c.why)
		}
	}
}

// A tool runs the loads that it has once more, with its own sizes, figure and words.
func TestToolCells(t *testing.T) {
	fakeNetperf(t, netperfMean)
	for name, c := range map[string]struct {
		q    Request
		want []string // names of cells
	}{
		"beside ours":     {Request{LoadTools: []string{"iperf3"}, Loads: []string{"tcp_bw"}}, []string{"tcp_bw/65536", "iperf3:tcp_bw/131072"}},
		"its own loads":   {Request{LoadTools: []string{"ping"}}, []string{"ping/56", "ping:ping/56"}},
		"loads of others": {Request{LoadTools: []string{"ping", "iperf3"}, Loads: []string{"ping", "tcp_bw"}}, []string{"ping/56", "tcp_bw/65536", "ping:ping/56", "iperf3:tcp_bw/131072"}},
		"sizes":           {Request{LoadTools: []string{"qperf"}, Loads: []string{"tcp_lat"}, Sizes: "1,4K"}, []string{"tcp_lat/1", "tcp_lat/4096", "qperf:tcp_lat/1", "qperf:tcp_lat/4096"}},
		"flows":           {Request{LoadTools: []string{"iperf3"}, Loads: []string{"tcp_bw"}, Flows: []int{4}}, []string{"tcp_bw/65536/flows=4", "iperf3:tcp_bw/131072/flows=4"}},
		"in place":        {Request{Cells: []CellSpec{{Load: "tcp_rr", Tool: "netperf"}}}, []string{"netperf:tcp_rr/1"}},
	} {
		p, err := c.q.Plan()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, cell := range p.Cells {
			got = append(got, cell.Name)
			if isTool := cell.Tool() != ""; isTool != (cell.Meaning != "") || isTool && cell.Slice != toolSlice {
				t.Errorf("%s: %+v", name, cell)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestToolCellsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		q    Request
		want string
	}{
		"unknown":   {Request{LoadTools: []string{"ttcp"}}, `no tool "ttcp"`},
		"load":      {Request{LoadTools: []string{"ping"}, Loads: []string{"tcp_bw"}}, "choose one of: ping"},
		"flows":     {Request{LoadTools: []string{"qperf"}, Loads: []string{"tcp_bw"}, Flows: []int{2}}, "one flow"},
		"many":      {Request{LoadTools: []string{"iperf3"}, Loads: []string{"tcp_bw"}, Flows: []int{129}}, "128"},
		"rate":      {Request{LoadTools: []string{"qperf"}, Loads: []string{"tcp_bw"}, Rate: 1e9}, "rate"},
		"size":      {Request{LoadTools: []string{"iperf3"}, Loads: []string{"udp_bw"}, Sizes: "1"}, "16 to"},
		"with":      {Request{LoadTools: []string{"qperf"}, BesideTools: []string{"qperf"}, Loads: []string{"tcp_lat"}}, "--with"},
		"beside":    {Request{LoadTools: []string{"ping"}, Background: &result.BackgroundLoad{Load: "tcp_bw", Size: 1, Flows: 1, Cores: "same"}}, "--beside"},
		"response":  {Request{LoadTools: []string{"netperf"}, Response: 100}, "--response"},
		"undecided": {Request{LoadTools: []string{"qperf"}, Loads: []string{"tcp_lat"}, Batch: 2}, "--batch"},
	} {
		if _, err := c.q.Plan(); verr.Code(err) != verr.Usage || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A missing one is no reason not to tell what would be measured.
	t.Setenv("PATH", t.TempDir())
	for _, q := range []Request{{LoadTools: []string{"netperf"}, Loads: []string{"tcp_lat"}}, {Paths: []string{"host"}, BesideTools: []string{"qperf"}, Loads: []string{"tcp_lat"}}} {
		if err := resolve(t, q).Check(); verr.Code(err) != verr.Missing || !strings.Contains(err.Error(), "cannot run "+q.withDefaults().toolNames()[0]) {
			t.Errorf("a missing tool: %v", err)
		}
	}
}

// TestTools runs real tools over paths in turn with our loads, and one that is not there.
func TestTools(t *testing.T) {
	testenv.Root(t)
	fakeNetperf(t, netperfMean)
	q := short(t, "tcp_bw", "tcp_rr", "ping")
	q.Paths, q.Series, q.Rounds, q.LoadTools = []string{"vxlan"}, 2, 2, []string{"iperf3", "ping", "netperf"}
	rec, _, err := Do(t.Context(), resolve(t, q), testHost(t, deaf{}))
	if err != nil {
		t.Fatal(err)
	}
	figures, empty := map[string]int{}, map[string][]string{}
	for _, s := range rec.Slices {
		for _, c := range rec.Plan.Cells {
			row := s.Cell + " " + s.Arm
			switch v, ok := s.Value(c.Metric); {
			case c.Name != s.Cell:
			case ok:
				figures[row]++
			default:
				empty[row] = append(empty[row], fmt.Sprint(v, s.Failed))
			}
		}
		if s.Cell == "netperf:tcp_rr/1" && (s.Latency == nil || s.Latency.RTTSum < 36212*55180-1e6 || s.Latency.RTTSum > 36212*55180+1e6) {
			t.Errorf("netperf's mean is read as %+v, %s", s.Latency, s.Failed)
		}
	}
	for _, c := range rec.Plan.Cells {
		for _, arm := range rec.Plan.Arms {
			rounds := 2
			if c.Tool() != "" {
				rounds = 1
			}
			n, idle := figures[c.Name+" "+arm.Name], empty[c.Name+" "+arm.Name]
			// On a busy machine 50 ms may pass in which one end never has a core; a tool takes longer.
			if n == 0 || n+len(idle) != q.Series*rounds || c.Tool() != "" && len(idle) > 0 {
				t.Errorf("%s of %s has %d figures, want %d; without: %q; warnings %v", c.Name, arm.Name, n, q.Series*rounds, idle, rec.Warnings)
			}
		}
	}
}
