package study

import (
	"os"
	"slices"
	"testing"
	"time"
)

// TestShipped reads every study that comes with Venturi: its paths and loads
// exist, and it is called as its file.
func TestShipped(t *testing.T) {
	names := Names()
	if !slices.Contains(names, "calico-bgp-vs-ovs") {
		t.Fatalf("the studies are %v", names)
	}
	for _, name := range names {
		s, err := Open(name)
		if err != nil {
			t.Error(err)
			continue
		}
		if s.Name != name || s.Question == "" || s.Source == "" || s.Budget == 0 {
			t.Errorf("%s: %+v", name, s)
		}
		for _, q := range s.Requests() {
			if _, err := q.Plan(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := os.Stat("../../docs/studies/" + name + ".md"); err != nil {
			t.Errorf("the study has no page: %v", err)
		}
	}
}

// TestFirstStudy holds the first study to its time and to the shape of the
// table that it is held against.
func TestFirstStudy(t *testing.T) {
	s, err := Open("calico-bgp-vs-ovs")
	if err != nil {
		t.Fatal(err)
	}
	if s.Budget > 5*time.Minute {
		t.Errorf("it measures for %v, and shall be over in 6 minutes", s.Budget)
	}
	table := s.Tables[len(s.Tables)-1]
	if len(table.Figures) != 2 || len(table.Figures[0].Sizes) != 16 || table.Baseline != "ovs" {
		t.Errorf("its table: %+v", table)
	}
	if s.Loads[0].Load != "tcp_bw" || s.Loads[0].Sizes != "" {
		t.Errorf("its first load is %+v, want one stream", s.Loads[0])
	}
}

// TestFifthStudy holds the study of latency to the paths of its write-up, and to ping on an
// idle path, beside packets and beside bytes, which differ in nothing else.
func TestFifthStudy(t *testing.T) {
	s, err := Open("ovs-vxlan-latency")
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Paths) != 5 || s.Paths[0].Name != "host" {
		t.Errorf("its paths: %+v", s.Paths)
	}
	var beside []string
	for _, f := range s.Tables[0].Figures[:3] {
		name := ""
		if f.Background != nil {
			name = f.Background.Load
		}
		if f.Load != "ping" {
			t.Errorf("%+v", f)
		}
		beside = append(beside, name)
	}
	if want := []string{"", "udp_bw", "tcp_bw"}; !slices.Equal(beside, want) {
		t.Errorf("ping beside %q, want %q", beside, want)
	}
}

// TestKubeOVN holds the study of Kube-OVN's tuning to its time, to the sizes of the
// write-up, and to the order of its columns.
func TestKubeOVN(t *testing.T) {
	s, err := Open("kube-ovn-tuning")
	if err != nil {
		t.Fatal(err)
	}
	if s.Budget > 5*time.Minute || s.Services != 1000 {
		t.Errorf("it measures for %v, and shall be over in 6 minutes; %d Services", s.Budget, s.Services)
	}
	sizes := []int{}
	for _, table := range s.Tables {
		if table.Paths[len(table.Paths)-1] != "host" {
			t.Errorf("%s: the last path is not the host network", table.Title)
		}
		var loads []string
		for _, f := range table.Figures {
			loads = append(loads, f.Load)
			sizes = append(sizes, f.Sizes...)
		}
		if want := []string{"tcp_lat", "udp_lat", "tcp_bw", "udp_bw"}; !slices.Equal(loads, want) {
			t.Errorf("%s shows %v, want %v", table.Title, loads, want)
		}
	}
	for _, size := range []int{1, 1 << 10, 4 << 10} {
		if !slices.Contains(sizes, size) {
			t.Errorf("no table shows %d bytes", size)
		}
	}
}
