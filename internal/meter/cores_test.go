package meter

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A machine that has some of the host's cores is told what these did, and no more.
func TestMachineCores(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(fixture, "proc/stat"))
	if err != nil {
		t.Fatal(err)
	}
	if cores, err := statCores(b, []int{2}); err != nil || !slices.Equal(cores, []int{2}) {
		t.Errorf("cores %v, %v, want 2 alone", cores, err)
	}
	if cores, err := statCores(b, []int{2, 900}); err == nil {
		t.Errorf("cores %v: a core that is not there is accepted", cores)
	}

	// The fixture's second line is of core 2: core 1 is off.
	if b, err = os.ReadFile(filepath.Join(fixture, "proc/net/softnet_stat")); err != nil {
		t.Fatal(err)
	}
	old := []byte("0000000a 00000002 00000003\n0000000b 00000004 00000005\n") // does not tell the cores
	for _, c := range []struct {
		b     []byte
		cores []int
		want  []int64
	}{
		{b, nil, []int64{0xa1f3 + 0xd, 2 + 1, 0x10 + 1}},
		{b, []int{0}, []int64{0xa1f3, 2, 0x10}},
		{b, []int{2, 3}, []int64{0xd, 1, 1}},
		{b, []int{1}, []int64{0, 0, 0}},
		{old, []int{1}, []int64{0xb, 4, 5}},
	} {
		got := make([]int64, len(softnetKeys))
		if err := (&softnet{cores: c.cores}).count(c.b, got); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("softnet of cores %v: %v, %v, want %v", c.cores, got, err, c.want)
		}
	}
}

// Threads are those of the machine that has all cores that they may run on.
func TestMachineThreads(t *testing.T) {
	root := t.TempDir()
	for id, allowed := range map[string]string{"11": "0", "12": "1", "13": "0-1", "14": "2-3"} {
		for _, dir := range []string{"proc/" + id, "proc/" + id + "/task/" + id} {
			if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
				t.Fatal(err)
			}
			for name, text := range map[string]string{"comm": "t" + id + "\n", "schedstat": "5 0 1\n", "status": "Name:\tt\nCpus_allowed_list:\t" + allowed + "\nMems_allowed:\t1\n"} {
				if err := os.WriteFile(filepath.Join(root, dir, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for want, cores := range map[string][]int{
		"t11#11": {0}, "t14#14": {2, 3}, "t11#11 t12#12 t13#13": {0, 1}, "t11#11 t12#12 t13#13 t14#14": nil,
	} {
		s, err := openThreads(Setup{Root: root, Cores: cores, Arms: []Arm{{}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.(growing).Refresh(); err != nil {
			t.Fatal(err)
		}
		keys := slices.Sorted(slices.Values(s.Keys()))
		if got := strings.Join(keys, " "); got != want {
			t.Errorf("cores %v: threads %s, want %s", cores, got, want)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
