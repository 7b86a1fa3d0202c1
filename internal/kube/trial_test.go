package kube_test

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/verr"
)

// await waits until something holds.
func (c *tuned) await(what string, holds func() bool) {
	c.t.Helper()
	for end := time.Now().Add(host.ScaleTimeout(2 * time.Minute)); !holds(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			c.t.Fatalf("%s: not yet; left: %v", what, c.Remaining())
		}
	}
}

// onTrial wants the changes of a trial to be there, with what ends it.
func (c *tuned) onTrial(said, length string) {
	c.t.Helper()
	want(c.t, said, `data.enable-bpf-masquerade: "false" -> "true"`, "on trial for "+length, "kubectl venturi confirm 1", "kubectl venturi undo 1")
	if c.data()["enable-bpf-masquerade"] != "true" {
		c.t.Errorf("the API: %v", c.data())
	}
	for i, m := range c.machines {
		if m.Output(c.t, "ethtool", "-k", "eth0") == c.links[i] {
			c.t.Errorf("nothing has changed on %s", m.Name)
		}
	}
	if left := c.Remaining(); !slices.Contains(left, "job venturi-trial/venturi-trial") || slices.ContainsFunc(left, func(name string) bool { return strings.Contains(name, "venturi-run") }) {
		c.t.Errorf("what there is: %v", left)
	}
}

var trial = []string{"tune", "--profile", "balanced", "--cluster", "--dev", "eth0", "--apply", "--trial"}

// What nobody confirms comes back by itself: on the nodes, on one whose own lease was lost, and in
// the API. Meanwhile no second trial begins.
func TestTrialEnds(t *testing.T) {
	testenv.Root(t)
	c := newTuned(t, 2)
	c.onTrial(c.run(verr.OK, append(trial, "20s")...), "20s")
	want(t, c.run(verr.Busy, append(trial, "20s")...), "another one goes on")
	for pid := range c.machines[1].Processes() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	c.await("all is undone", func() bool { return len(c.Remaining()) == 0 })
	c.asBefore()
	checkRole(t, c)
	want(t, c.run(verr.Usage, "confirm"), "no transaction is on trial")
}

// What is confirmed stays, and undo still undoes it.
func TestTrialConfirmed(t *testing.T) {
	testenv.Root(t)
	c := newTuned(t, 2)
	c.onTrial(c.run(verr.OK, append(trial, "15m")...), "15m0s")
	want(t, c.run(verr.OK, "confirm"), "transaction 1 stays", "kubectl venturi undo 1")
	c.await("only the journal is left", func() bool { return slices.Equal(c.Remaining(), []string{"the journal"}) })
	for i, m := range c.machines {
		if m.Output(t, "ethtool", "-k", "eth0") == c.links[i] {
			t.Errorf("nothing has changed on %s", m.Name)
		}
	}
	want(t, c.run(verr.Usage, "confirm", "1"), "transaction 1 is not on trial")
	want(t, c.run(verr.OK, "undo"), "restored", "node n1: restored", "node n2: restored")
	c.asBefore()
}

// An undo ends a trial of the API alone, for which there is no agent on a node.
func TestTrialUndone(t *testing.T) {
	c := newTuned(t, 0)
	want(t, c.run(verr.OK, "tune", "--profile", "cilium", "--cluster", "--apply", "--trial", "15m"), "on trial for 15m0s")
	want(t, c.run(verr.OK, "undo"), "restored")
	c.await("nothing is left", func() bool { return len(c.Remaining()) == 0 })
	c.asBefore()
	if slices.Contains(c.Calls(), "create /pods/exec") {
		t.Errorf("the calls were %v", c.Calls())
	}
}

// Nothing is changed before the pod has the lease that undoes it; an API server that is away when the
// lease ends only delays that.
func TestTrialHolder(t *testing.T) {
	c := newTuned(t, 0)
	var before, broken atomic.Int32
	var away atomic.Bool
	c.BeforeCall(func(right string) {
		switch {
		case right != "patch /configmaps":
		case away.Load() && broken.Add(1) <= 6: // more than one attempt takes
			panic(http.ErrAbortHandler) // the connection breaks
		case !away.Load():
			kept, _ := c.Object(journalPath)["data"].(map[string]any)
			if text, _ := kept["transaction-1"].(string); !strings.Contains(text, `"has_holder":true`) {
				before.Add(1)
			}
		}
	})
	c.run(verr.OK, "tune", "--profile", "cilium", "--cluster", "--apply", "--trial", "15m")
	away.Store(true)
	c.AdvanceClock(16 * time.Minute)
	if before.Load() > 0 {
		t.Error("the API was written to before the lease was held")
	}
	c.await("all is undone", func() bool { return len(c.Remaining()) == 0 })
	if broken.Load() == 0 {
		t.Error("no call has failed")
	}
	c.asBefore()
}

// Where the command is killed before all is written, the nodes undo their changes by themselves, and
// the pod does the rest, but not while the command may still write.
func TestTrialKilled(t *testing.T) {
	testenv.Root(t)
	c := newTuned(t, 2)
	cmd, _ := c.plugin(append(trial, "15m")...)
	var once sync.Once
	c.BeforeCall(func(right string) {
		if right == "patch /configmaps" {
			once.Do(func() { _ = cmd.Process.Kill() })
		}
	})
	_ = cmd.Run()
	c.nodesAsBefore()
	c.AdvanceClock(16 * time.Minute)
	time.Sleep(5 * time.Second)
	if c.data()["enable-bpf-masquerade"] != "true" {
		t.Error("the API was written to by the pod beside the command")
	}
	c.AdvanceClock(21 * time.Minute)
	c.await("all is undone", func() bool { return len(c.Remaining()) == 0 })
	c.asBefore()
}

// Without the service account, the error says what an administrator has to do.
func TestTrialWithoutAccount(t *testing.T) {
	c := newTuned(t, 0)
	c.RemoveNamespace("venturi-trial")
	want(t, c.run(verr.Missing, "tune", "--profile", "cilium", "--cluster", "--apply", "--trial", "15m"), "no service account venturi-trial/venturi-trial", "rbac tune --trial")
	c.asBefore()
	want(t, c.run(verr.OK, "rbac", "tune", "--trial", "--user", "jane"), "kind: Namespace", "kind: ServiceAccount, name: venturi-trial, namespace: venturi-trial", `name: "jane"`)
	if said := c.run(verr.OK, "rbac", "tune"); strings.Contains(said, "ServiceAccount") {
		t.Errorf("without --trial:\n%s", said)
	}
}
