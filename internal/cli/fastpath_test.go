package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath/discover"
	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/verr"
)

// The exit code of a plan tells whether all of it is carried, some, or nothing, and enable
// changes nothing in the last case.
func TestFastpathPlanCodes(t *testing.T) {
	testenv.Root(t)
	if answer, err := feature.Programs.Ask(); answer != feature.Yes {
		t.Skipf("this kernel has no fast path: %v", err)
	}
	w, n := testenv.Namespace(t)
	ends, err := w.Create(w.Name("ends"))
	testenv.Must(t, err)
	t.Cleanup(ends.Close)
	t.Setenv("VENTURI_JOURNAL", t.TempDir()+"/journal")
	run := func(want int, args ...string) (out string) {
		t.Helper()
		var text bytes.Buffer
		cmd := exec.Command("venturi", append([]string{"fastpath"}, args...)...)
		cmd.Stdout, cmd.Stderr = &text, t.Output()
		code, err := 0, cmd.Run()
		if ended := new(exec.ExitError); errors.As(err, &ended) {
			code = ended.ExitCode()
		} else {
			testenv.Must(t, err)
		}
		if code != want {
			t.Errorf("%v: exit code %d, want %d\n%s", args, code, want, &text)
		}
		return text.String()
	}
	if out := run(verr.Missing, "plan", "--netns", n.Path()); !strings.Contains(out, "nothing is carried: ") {
		t.Errorf("of an empty namespace: %s", out)
	}
	testenv.Shell(t, n.Path(), strings.ReplaceAll(`
		echo 1 > /proc/sys/net/ipv4/ip_forward
		pair() {
			ip link add $1 type veth peer name o$1 address $2 netns ENDS
			ip link set $1 up
			ip -n ENDS link set o$1 up
		}
		pair eth0 02:00:00:00:aa:02
		ip addr add 192.0.2.1/24 dev eth0
		ip neigh add 192.0.2.2 lladdr 02:00:00:00:aa:02 dev eth0
		ip route add 10.244.2.0/24 via 192.0.2.2
		for i in 2 3; do
			pair cali$i 02:00:00:00:bb:0$i
			ip route add 10.244.0.$i/32 dev cali$i
			ip neigh add 10.244.0.$i lladdr 02:00:00:00:bb:0$i dev cali$i
		done
	`, "ENDS", ends.Name()))
	var plan discover.Plan
	testenv.Must(t, json.Unmarshal([]byte(run(verr.OK, "plan", "-n", n.Path(), "--json")), &plan))
	if plan.Wire != "eth0" || len(plan.Pods) != 2 || len(plan.Peers) != 1 || plan.Pods[0].Outlook != discover.Carried {
		t.Errorf("planned %+v", plan)
	}
	testenv.Shell(t, n.Path(), "tc qdisc add dev cali2 root tbf rate 10mbit burst 100kb latency 1s")
	if out := run(verr.Findings, "plan", "-n", n.Path()); !strings.Contains(out, "has a queueing discipline tbf") {
		t.Errorf("with a limit: %s", out)
	}
	testenv.Shell(t, n.Path(), "tc qdisc add dev cali3 root tbf rate 10mbit burst 100kb latency 1s")
	run(verr.Missing, "plan", "-n", n.Path())
	testenv.InNetns(t, n.Path(), func() error {
		run(verr.Missing, "enable")
		run(verr.Usage, "enable", "--trial", "1ms")
		run(verr.Usage, "enable", "--shadow", "-1")
		run(verr.Missing, "shadow")
		run(verr.Usage, "shadow", "--time", "1ms")
		run(verr.Usage, "shadow", "--flows", "-1")
		if out := run(verr.OK, "status"); out != "there is no fast path here\n" {
			t.Errorf("status: %s", out)
		}
		run(verr.Missing, "stats")
		run(verr.Usage, "stats", "--top", "0")
		if out := run(verr.OK, "disable"); out != "there is no fast path here\n" {
			t.Errorf("disable: %s", out)
		}
		return nil
	})
}

// After a difference, what would be started again waits until it is ended; after anything else it ends.
func TestFastpathStaysOff(t *testing.T) {
	var said bytes.Buffer
	env := &Env{Stderr: &said}
	stayOff(t.Context(), env, nil)
	stayOff(t.Context(), env, verr.New(verr.Missing, "cannot enable the fast path", "there are no pods", "make some"))
	if said.Len() > 0 {
		t.Errorf("said %s", &said)
	}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan bool)
	go func() {
		stayOff(ctx, env, errors.Join(verr.New(verr.Findings, "cannot enable the fast path", "2 packets differ", "report them")))
		close(ended)
	}()
	select {
	case <-ended:
		t.Error("it did not wait")
	case <-time.After(100 * time.Millisecond):
	}
	end()
	<-ended
	if !strings.Contains(said.String(), "2 packets differ") || !strings.Contains(said.String(), "stays off") {
		t.Errorf("said %s", &said)
	}
}
