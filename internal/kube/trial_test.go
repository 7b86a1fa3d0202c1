package kube_test

import (
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/kube"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/plain"
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
	if left := c.Remaining(); !slices.Contains(left, trialJob) || slices.ContainsFunc(left, func(name string) bool { return strings.Contains(name, "venturi-run") }) {
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
	want(t, c.run(verr.Busy, append(trial, "20s")...), "another trial is in progress")
	for pid := range c.machines[1].Processes() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	c.await("all is undone", func() bool { return len(c.Remaining()) == 0 })
	c.asBefore()
	checkRole(t, c)
	if slices.Contains(c.Calls(), "create /namespaces") {
		t.Error("a namespace was created, for which the service account has no right")
	}
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
	t.Parallel() // it waits, on a cluster of its own
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
	plain.SkipShort(t)
	t.Parallel() // it waits, on a cluster of its own
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
	c.runKilled(append(trial, "15m")...)
	c.nodesAsBefore()
	c.AdvanceClock(5 * time.Minute)
	time.Sleep(5 * time.Second)
	if c.data()["enable-bpf-masquerade"] != "true" {
		t.Error("the API was written to by the pod beside the command")
	}
	c.AdvanceClock(11 * time.Minute)
	c.await("all is undone", func() bool { return len(c.Remaining()) == 0 })
	c.asBefore()
}

// apiTrial is a command line of a trial of the API alone.
var apiTrial = []string{"tune", "--profile", "cilium", "--cluster", "--apply", "--trial", "15m"}

// A pod that is started again while the API server is away, and asks for no rights then, still
// undoes the trial.
func TestTrialHolderRestarts(t *testing.T) {
	plain.SkipShort(t)
	t.Parallel() // it waits, on a cluster of its own
	c := newTuned(t, 0)
	var away, unsaid atomic.Bool
	var broken atomic.Int32
	c.BeforeCall(func(right string) {
		if away.Load() || unsaid.Load() && strings.Contains(right, "selfsubjectaccessreviews") {
			broken.Add(1)
			panic(http.ErrAbortHandler) // the connection breaks
		}
	})
	c.run(verr.OK, apiTrial...)
	away.Store(true)
	unsaid.Store(true)
	c.signalLease(syscall.SIGKILL)
	c.await("the pod has tried twice", func() bool { return broken.Load() > 1 })
	away.Store(false)
	c.AdvanceClock(16 * time.Minute)
	c.await("all is undone", func() bool { return len(c.Remaining()) == 0 })
	c.asBefore()
}

// What somebody else has changed meanwhile is left, once and for all, and the journal says so.
func TestTrialConflict(t *testing.T) {
	t.Parallel() // it waits, on a cluster of its own
	c := newTuned(t, 0)
	c.run(verr.OK, apiTrial...)
	c.UpdateObject(t, ciliumPath, "argocd", func(o map[string]any) { o["data"].(map[string]any)["enable-hubble"] = "maybe" })
	c.AdvanceClock(16 * time.Minute)
	c.await("only the journal is left", func() bool { return slices.Equal(c.Remaining(), []string{"the journal"}) })
	if c.data()["enable-hubble"] != "maybe" || c.data()["enable-bpf-masquerade"] != "false" {
		t.Errorf("after the trial: %v", c.data())
	}
	want(t, c.run(verr.Failed, "confirm"), "the time of transaction 1 ended at", "somebody else has changed", "kubectl venturi undo 1")
	want(t, c.run(verr.Partial, "undo"), "conflict", "argocd (")
	want(t, c.run(verr.OK, "undo", "--leave"), "left")
	if left := c.Remaining(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// A command that takes longer than the lease, and writes after that was undone, undoes its write, and
// does not bring the entry in the journal back.
func TestTrialOutlasted(t *testing.T) {
	t.Parallel() // it waits, on a cluster of its own
	c := newTuned(t, 0)
	var once atomic.Bool
	c.BeforeCall(func(right string) {
		if right == "patch /configmaps" && once.CompareAndSwap(false, true) {
			c.AdvanceClock(time.Hour)
			c.await("the pod has undone what there is", func() bool { return c.Object(journalPath) == nil })
		}
	})
	want(t, c.run(verr.Failed, apiTrial...), "cannot keep the changes", "undone transaction 1")
	c.await("nothing is left", func() bool { return len(c.Remaining()) == 0 })
	c.asBefore()
}

// What is over cannot be confirmed, also where the pod that undoes it is late, or the time ends in the
// midst of the confirmation.
func TestTrialConfirmedLate(t *testing.T) {
	t.Parallel()                          // it waits, on a cluster of its own
	for _, reads := range []int32{0, 1} { // of the journal until then
		c := newTuned(t, 0)
		var armed atomic.Bool
		var left atomic.Int32
		c.BeforeCall(func(right string) {
			if armed.Load() && right == "get /configmaps" && left.Add(-1) < 0 {
				c.AdvanceClock(16 * time.Minute)
			}
		})
		c.run(verr.OK, apiTrial...)
		c.signalLease(syscall.SIGSTOP)
		left.Store(reads)
		armed.Store(true)
		want(t, c.run(verr.Failed, "confirm"), "cannot confirm", "ended")
		c.signalLease(syscall.SIGCONT)
		c.await("all is undone", func() bool { return len(c.Remaining()) == 0 })
		c.asBefore()
	}
}

// Where the command cannot undo what it has failed to change, the pod does.
func TestTrialRollbackFails(t *testing.T) {
	t.Parallel() // it waits, on a cluster of its own
	c := newTuned(t, 0)
	var broken atomic.Bool
	broken.Store(true)
	c.BeforeCall(func(right string) {
		if broken.Load() && right == "patch /configmaps" {
			panic(http.ErrAbortHandler)
		}
	})
	want(t, c.run(verr.Failed, apiTrial...), "did not say whether", "kubectl venturi undo 1")
	if left := c.Remaining(); !slices.Contains(left, trialJob) {
		t.Errorf("nobody is left to undo it: %v", left)
	}
	broken.Store(false)
	c.AdvanceClock(11 * time.Minute)
	c.await("all is undone", func() bool { return len(c.Remaining()) == 0 })
	c.asBefore()
}

// What a command has left that was killed before it changed anything keeps others from a trial for ten
// minutes at most, and cleanup removes it at once.
func TestTrialNeverBegan(t *testing.T) {
	t.Parallel() // it waits, on a cluster of its own
	c := newTuned(t, 0)
	kill := func() {
		t.Helper()
		c.OnPod(func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodPending })
		cmd, out := c.plugin(apiTrial...)
		testenv.Must(t, cmd.Start())
		c.await("there is a Job", func() bool { return slices.Contains(c.Remaining(), trialJob) })
		testenv.Must(t, cmd.Process.Kill())
		_ = cmd.Wait()
		if c.Object(journalPath) != nil {
			t.Errorf("it has begun: %s", out)
		}
	}
	kill()
	want(t, c.run(verr.Busy, apiTrial...), "another trial is in progress", "kubectl venturi cleanup")
	want(t, c.run(verr.OK, "cleanup"), "removed "+trialJob)
	c.asBefore()
	kill()
	c.AdvanceClock(11 * time.Minute)
	c.OnPod(c.runLease)
	want(t, c.run(verr.OK, apiTrial...), "on trial for 15m0s")
	want(t, c.run(verr.OK, "cleanup"), "nothing to remove")
	want(t, c.run(verr.OK, "undo"), "restored")
	c.await("nothing is left", func() bool { return len(c.Remaining()) == 0 })
	c.asBefore()
}

// The service account has rights of its own: by the names of objects where they have some, and to
// create only in its own namespace.
func TestTrialRights(t *testing.T) {
	c := newTuned(t, 0)
	roles := 0
	for d := yaml.NewDecoder(strings.NewReader(c.run(verr.OK, "rbac", "tune", "--trial", "--user", "jane"))); ; {
		var o struct {
			Kind     string
			Metadata struct{ Name, Namespace string }
			Subjects []struct{ Kind, Name string }
			Rules    []struct {
				Resources, Verbs []string
				ResourceNames    []string `yaml:"resourceNames"`
			}
		}
		if d.Decode(&o) != nil {
			break
		}
		isTrial := o.Metadata.Name == kube.TrialName
		for _, s := range o.Subjects {
			if (s.Kind == "ServiceAccount") != isTrial {
				t.Errorf("%s is bound to %s %s", o.Metadata.Name, s.Kind, s.Name)
			}
		}
		for _, r := range o.Rules {
			roles++
			listsNodes := o.Kind == "ClusterRole" && slices.Equal(r.Resources, []string{"nodes"}) && slices.Equal(r.Verbs, []string{"list"})
			customObjects := o.Kind == "ClusterRole" && slices.Equal(r.Verbs, []string{"get", "patch"})
			switch {
			case !isTrial:
				roles--
			case o.Metadata.Namespace == kube.TrialName:
				if slices.Contains(r.Verbs, "delete") && len(r.ResourceNames) == 0 {
					t.Errorf("too much: %+v", r)
				}
			case slices.Contains(r.Verbs, "create") || len(r.ResourceNames) == 0 && !listsNodes && !(customObjects && r.Resources[0] == "ippools"):
				t.Errorf("too much in %s %s: %+v", o.Kind, o.Metadata.Namespace, r)
			}
		}
	}
	if roles < 8 {
		t.Errorf("there are %d rights of the service account", roles)
	}
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
