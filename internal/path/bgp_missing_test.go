package path

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// While routes are missing, the error says which, and what the sessions and
// the kernel have to do with it.
func TestBGPMissing(t *testing.T) {
	s := &Site{}
	for i, name := range []string{"m1", "m2", "m3"} {
		s.Machines = append(s.Machines, Machine{Name: name, Addr: netip.AddrFrom4([4]byte{10, 200, 0, byte(i + 1)})})
	}
	file := filepath.Join(t.TempDir(), "state.json")
	if err := s.bgpLearned(0, file); err == nil {
		t.Error("a speaker that has not begun knows everything")
	}
	for _, c := range []struct {
		name, state string
		want        []string // in the error; nil: none
	}{
		{"nothing yet", `{"peers":[{"address":"10.200.0.2","state":"active"},{"address":"10.200.0.3","state":"established"}],"routes":[]}`,
			[]string{"no route to 10.244.0.64/26 of m2", "the session with m2 (10.200.0.2) is active"}},
		{"lost", `{"peers":[{"address":"10.200.0.3","state":"idle","down":"hold-timer-expired"}],"routes":[{"prefix":"10.244.0.64/26","via":"10.200.0.2"}]}`,
			[]string{"no route to 10.244.0.128/26 of m3", "m3 (10.200.0.3) is idle, it went down: hold-timer-expired"}},
		{"refused", `{"peers":[],"routes":[],"problems":["add route: file exists"]}`, []string{"file exists"}},
		{"by another machine", `{"routes":[{"prefix":"10.244.0.64/26","via":"10.200.0.3"},{"prefix":"10.244.0.128/26","via":"10.200.0.3"}]}`,
			[]string{"of m2", "all sessions are up"}},
		{"whole", `{"routes":[{"prefix":"10.244.0.64/26","via":"10.200.0.2"},{"prefix":"10.244.0.128/26","via":"10.200.0.3"}]}`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := os.WriteFile(file, []byte(c.state), 0o600); err != nil {
				t.Fatal(err)
			}
			err := s.bgpLearned(0, file)
			if (err == nil) != (c.want == nil) {
				t.Fatalf("got %v", err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
		})
	}
}
