package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/venturi-net/venturi/internal/display"
	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/kube"
	"github.com/venturi-net/venturi/internal/progress"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/tune"
	"github.com/venturi-net/venturi/internal/tune/cluster"
	"github.com/venturi-net/venturi/internal/verr"
)

// kubeTuning is what a command line of tune asks for in a cluster.
type kubeTuning struct {
	kubeFlags
	profile, config  string
	cluster, host    bool
	devices          []string
	plan, apply, all bool
	asJSON, wait     bool
	prove            proving
	trial            time.Duration
}

// nodeFlags are those of commands that go to the nodes of a cluster.
func (k *kubeFlags) nodeFlags(f *pflag.FlagSet, usage string) {
	k.accessFlags(f)
	k.podFlags(f)
	f.StringSliceVar(&k.o.Nodes, "nodes", nil, usage)
}

// request is what the flags ask for.
func (t *kubeTuning) request(env *Env) (q cluster.TuningRequest, err error) {
	const what = "cannot tune the cluster"
	if err = checkTrialApplied(what, t.trial, t.apply); err != nil {
		return q, err
	}
	if q.Profile, err = findProfile(t.profile); err != nil {
		return q, err
	}
	q.Cilium = cluster.CiliumConfig
	if t.config != "" {
		c, err := readConfig(t.config, env.Stderr)
		if err != nil {
			return q, err
		}
		t.host, q.Cilium.Namespace, q.Cilium.Name = true, c.Namespace, c.Name
		if c.Device != "" && !slices.Contains(t.devices, c.Device) {
			t.devices = append(t.devices, c.Device)
		}
		if t.cluster && !c.Cilium {
			sanitize.Fprintf(env.Stderr, "venturi: TUNING_CILIUM is not true in %s: the settings in the API are left alone\n", t.config)
		}
		t.cluster = c.Cilium
	}
	q.Cluster = t.cluster
	if t.host || len(t.devices) > 0 {
		q.NodeArgs = []string{"tune", "--profile", q.Profile.Name}
		if t.host {
			q.NodeArgs = append(q.NodeArgs, "--host")
		}
		for _, d := range t.devices {
			q.NodeArgs = append(q.NodeArgs, "--dev", d)
		}
	}
	switch {
	case !q.Cluster && len(q.NodeArgs) == 0:
		return q, verr.New(verr.Usage, what, "no target is given", "name what to tune: --cluster, --host or --dev; nothing is changed without --apply")
	case len(t.o.Nodes) > 0 && len(q.NodeArgs) == 0:
		return q, verr.New(verr.Usage, what+" with --nodes", "without --host and --dev no node is touched", "add --host or --dev, or leave out --nodes")
	}
	q.Apply, q.Trial, q.Access, q.User, q.Version = t.apply, t.trial, t.access, journal.User(env.Getenv), Version()
	q.Command = sanitize.Command(append([]string{"kubectl", "venturi"}, env.Args...)...)
	q.Nodes = kube.NodesRequest{Options: t.withImage(env), Command: "kubectl venturi tune", Wait: t.wait}
	return q, nil
}

func (t *kubeTuning) run(ctx context.Context, env *Env) (err error) {
	q, err := t.request(env)
	if err != nil {
		return err
	}
	if t.prove.on {
		return t.proveOnNodes(ctx, env, q)
	}
	show := progress.New(env.Stderr)
	defer show.Done()
	q.Nodes.Say = show.Say
	var flags []string
	if t.asJSON || t.apply {
		flags = append(flags, "--json")
	}
	if t.all {
		flags = append(flags, "--all")
	}
	s, err := cluster.Open(ctx, q, flags...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if !t.apply {
		show.Done()
		if t.asJSON {
			return printClusterJSON(env, s.Plan, &cluster.Result{Replies: s.Replies})
		}
		return s.Print(env.Stdout)
	}
	if s.Plan != nil {
		for _, u := range s.Unread {
			sanitize.Fprintf(env.Stderr, "venturi: %s could not be read, and is left alone: %s\n", u.Object, u.Reason)
		}
	}
	done, failed := s.Apply(ctx)
	show.Done()
	display.PrintStderr(env.Stderr, s.Replies)
	if done == nil {
		return failed
	}
	if t.asJSON {
		return errors.Join(printClusterJSON(env, s.Plan, done), failed)
	}
	for i := range done.Replies {
		if done.Replies[i].Stdout, err = changeInWords(done.Replies[i].Stdout); err != nil {
			return errors.Join(failed, err)
		}
	}
	return errors.Join(done.Print(env.Stdout), failed)
}

// changeInWords says what a node has changed, but for how to undo it there.
func changeInWords(stdout []byte) ([]byte, error) {
	var done display.CommitResult
	if err := json.Unmarshal(stdout, &done); err != nil {
		return nil, err
	}
	done.Confirm = "" // the cluster's transaction is to be confirmed, not the node's
	var text bytes.Buffer
	if err := done.Print(&text, 0); err != nil {
		return nil, err
	}
	var kept []string
	for line := range strings.Lines(text.String()) {
		if !strings.HasPrefix(line, "undo with: ") {
			kept = append(kept, line)
		}
	}
	return []byte(strings.Join(kept, "")), nil
}

// tunedCluster is the JSON form of what is or would be changed. Its fields, and those of what it is made of,
// are in the order of their names, lest the output change.
type tunedCluster struct {
	Cluster  *tunedObjects              `json:"cluster,omitempty"` // nil: they are not tuned
	Nodes    map[string]json.RawMessage `json:"nodes"`             // what each has printed
	Restarts []string                   `json:"restarts"`
	Txn      int                        `json:"transaction"`
	Trial    *clusterTrial              `json:"trial,omitempty"`
	Version  int                        `json:"version"`
}

// tunedObjects is the JSON form of a plan for the API's objects.
type tunedObjects struct {
	ByHand  []cluster.ObjectChange `json:"by_hand"`
	Changes []cluster.ObjectChange `json:"changes"`
	Skipped []tune.Skipped         `json:"skipped"`
}

// clusterTrial is the JSON form of a lease in a cluster.
type clusterTrial struct {
	Length float64   `json:"length"` // s
	Until  time.Time `json:"until"`  // by the API server's clock
}

// undoneInCluster is the JSON form of an undo there, and confirmedInCluster that of a confirm.
type (
	undoneInCluster struct {
		Txns    []cluster.UndoResult `json:"transactions"`
		Version int                  `json:"version"`
	}
	confirmedInCluster struct {
		Txn     int `json:"transaction"`
		Version int `json:"version"`
	}
)

// printClusterJSON prints what is or would be changed, for machines.
func printClusterJSON(env *Env, p *cluster.Plan, done *cluster.Result) error {
	all := tunedCluster{Version: display.JSONVersion, Txn: done.Txn, Restarts: append([]string{}, done.Restarts...),
		Nodes: map[string]json.RawMessage{}}
	if done.Lease != nil {
		all.Trial = &clusterTrial{Length: done.Lease.Length.Seconds(), Until: done.Lease.Until}
	}
	if p != nil {
		all.Cluster = &tunedObjects{Changes: append([]cluster.ObjectChange{}, p.Changes...),
			ByHand: append([]cluster.ObjectChange{}, p.ByHand...), Skipped: append([]tune.Skipped{}, p.Skipped...)}
	}
	for _, r := range done.Replies {
		all.Nodes[r.Machine.Name] = r.Stdout
	}
	return display.PrintJSON(env.Stdout, all)
}

// kubeUndo is what a command line of undo asks for in a cluster.
type kubeUndo struct {
	kubeFlags
	q            cluster.UndoRequest
	wait, asJSON bool
}

// flags are those of all commands that go to the nodes of transactions.
func (u *kubeUndo) flags(f *pflag.FlagSet) {
	u.accessFlags(f)
	u.podFlags(f)
	f.BoolVar(&u.wait, "wait", false, "wait for another run in the cluster to end")
}

// request is what the flags ask for; show is told how it goes.
func (u *kubeUndo) request(env *Env, command string, show *progress.Progress) cluster.UndoRequest {
	q := u.q
	q.Access = u.access
	q.Nodes = kube.NodesRequest{Options: u.withImage(env), Command: command, Wait: u.wait, Say: show.Say}
	return q
}

// choose reads the numbers of transactions.
func (u *kubeUndo) choose(verb string, args []string) error {
	for _, a := range args {
		id, err := strconv.Atoi(a)
		if err != nil {
			return verr.New(verr.Usage, "cannot "+verb+" transaction "+a, "it is not a number", "give the number of a transaction, or none for the only open one")
		}
		u.q.Txns = append(u.q.Txns, id)
	}
	return nil
}

func (u *kubeUndo) run(ctx context.Context, env *Env, args []string) error {
	if err := refuseNumbersWithAll(args, u.q.All); err != nil {
		return err
	}
	if err := u.choose("undo", args); err != nil {
		return err
	}
	show := progress.New(env.Stderr)
	defer show.Done()
	results, err := cluster.Undo(ctx, u.request(env, "kubectl venturi undo", show))
	show.Done()
	if results == nil && err != nil {
		return err
	}
	if u.asJSON {
		undone := undoneInCluster{Version: display.JSONVersion, Txns: append([]cluster.UndoResult{}, results...)}
		return errors.Join(display.PrintJSON(env.Stdout, undone), err)
	}
	return errors.Join(cluster.PrintUndone(env.Stdout, results), err)
}

// confirm keeps what is on trial.
func (u *kubeUndo) confirm(ctx context.Context, env *Env, args []string) error {
	if err := u.choose("confirm", args); err != nil {
		return err
	}
	show := progress.New(env.Stderr)
	defer show.Done()
	id, err := cluster.Confirm(ctx, u.request(env, "kubectl venturi confirm", show))
	show.Done()
	if err != nil {
		return err
	}
	if u.asJSON {
		return display.PrintJSON(env.Stdout, confirmedInCluster{Version: display.JSONVersion, Txn: id})
	}
	_, err = sanitize.Fprintf(env.Stdout, "transaction %d stays; undo with: kubectl venturi undo %[1]d\n", id)
	return err
}
