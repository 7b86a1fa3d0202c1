package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/testenv"
)

// With --netns, every command of the fast path works in another namespace than that of its process.
func TestFastpathInNetns(t *testing.T) {
	w, n := emptyNode(t)
	wirePods(t, w, n)
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("venturi", append([]string{"fastpath"}, args...)...)
		cmd.Stderr = t.Output()
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("%v: %v", args, err)
		}
		return string(out)
	}
	const none = "there is no fast path here\n"
	var out, said bytes.Buffer
	carries := make(awaited, 1)
	running := exec.Command("venturi", "fastpath", "enable", "--shadow", "0", "--netns", n.Path())
	running.Stdout, running.Stderr = &out, io.MultiWriter(&said, carries)
	testenv.Must(t, running.Start())
	ended := make(chan error, 1)
	go func() { ended <- running.Wait() }()
	select {
	case <-carries:
	case err := <-ended:
		t.Fatalf("it has ended: %v\n%s%s", err, &out, &said)
	case <-time.After(testenv.Timeout):
		_ = running.Process.Kill()
		<-ended
		t.Fatalf("after %v, it does not carry\n%s", testenv.Timeout, &said)
	}
	var status struct {
		Running bool
		Config  struct{ Devices map[string]any }
	}
	testenv.Must(t, json.Unmarshal([]byte(run("status", "--json", "-n", n.Path())), &status))
	if d := status.Config.Devices; !status.Running || d["wire"] != "eth0" || d["node"] != true {
		t.Errorf("status: %+v", status)
	}
	if here := run("status"); here != none {
		t.Errorf("status of the own namespace: %s", here)
	}
	if stats := run("stats", "-n", n.Path()); !strings.Contains(stats, "packets") {
		t.Errorf("stats: %s", stats)
	}
	if here := run("disable"); here != none {
		t.Errorf("disable in the own namespace: %s", here)
	}
	if there := run("disable", "-n", n.Path()); there != "the fast path is disabled and fully removed\n" {
		t.Errorf("disable: %s", there)
	}
	select {
	case err := <-ended:
		testenv.Must(t, err)
	case <-time.After(testenv.Timeout):
		_ = running.Process.Kill()
		t.Fatalf("after %v, it has not ended: %v\n%s", testenv.Timeout, <-ended, &said)
	}
	if there := run("status", "-n", n.Path()); there != none {
		t.Errorf("status afterwards: %s", there)
	}
}
