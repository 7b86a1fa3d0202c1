package cli

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/watch"
)

// The history of a service goes on, unless it is of something else: then it is set aside.
func TestWatchHistory(t *testing.T) {
	folder := t.TempDir()
	begin := func(q compare.Request) (opt watch.Options, log string) {
		t.Helper()
		var out bytes.Buffer
		opt.Log = &out
		if err := resume(folder, requestText(&q), &opt); err != nil {
			t.Fatal(err)
		}
		return opt, out.String()
	}
	q := compare.Request{Paths: []string{"vxlan"}, Wire: "rss=l3"}
	opt, _ := begin(q)
	opt.History.Runs = []watch.RunRatios{{Ratios: map[string]map[string]float64{"tcp_lat/1": {"vxlan": 1.3}}}}
	if err := opt.Save(opt.History); err != nil {
		t.Fatal(err)
	}
	if opt, log := begin(q); len(opt.History.Runs) != 1 || log != "" {
		t.Errorf("of the same: %+v; %s", opt.History, log)
	}
	q.Wire = "rss=l4"
	if opt, log := begin(q); len(opt.History.Runs) != 0 || !strings.Contains(log, `of "vxlan --wire rss=l3"`) {
		t.Errorf("of another wire: %+v; %s", opt.History, log)
	}
	old, err := os.ReadFile(filepath.Join(folder, watch.HistoryFile+".old"))
	if err != nil || !strings.Contains(string(old), "tcp_lat/1") {
		t.Errorf("%v; set aside: %s", err, old)
	}
	if opt, log := begin(q); opt.History.Request != "vxlan --wire rss=l4" || log != "" {
		t.Errorf("after that: %+v; %s", opt.History, log)
	}
}

// The systemd unit starts the command with flags that it has, and keeps its records where
// the unit lets it write.
func TestWatchUnit(t *testing.T) {
	const file = "../../contrib/systemd/venturi-watch.service"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	started := regexp.MustCompile(`(?m)^ExecStart=\S*/venturi watch (.*)$`).FindStringSubmatch(string(text))
	if started == nil {
		t.Fatal("it starts no venturi watch")
	}
	cmd := newWatch(&Env{Stderr: io.Discard})
	if err := cmd.ParseFlags(strings.Fields(started[1])); err != nil {
		t.Error(err)
	}
	state := regexp.MustCompile(`(?m)^StateDirectory=(.*)$`).FindStringSubmatch(string(text))
	if out := cmd.Flags().Lookup("out").Value.String(); state == nil || out != "/var/lib/"+state[1] {
		t.Errorf("records go to %s, and the unit may write to %q", out, state)
	}
	program, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("there is no systemd-analyze here")
	}
	// It wants the program to be there.
	copied := filepath.Join(t.TempDir(), "venturi-watch.service")
	if err := os.WriteFile(copied, []byte(strings.ReplaceAll(string(text), "/usr/local/bin/venturi", "/bin/true")), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(program, "verify", copied).CombinedOutput(); err != nil {
		t.Errorf("systemd-analyze: %v\n%s", err, out)
	}
}
