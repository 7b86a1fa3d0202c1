package cli

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/venturi-net/venturi/internal/display"
	"github.com/venturi-net/venturi/internal/doctor/cluster"
	"github.com/venturi-net/venturi/internal/kube"
	"github.com/venturi-net/venturi/internal/progress"
	"github.com/venturi-net/venturi/internal/verr"
)

// kubeExamination is what the command line of doctor asks for in a cluster.
type kubeExamination struct {
	kubeFlags
	interval     time.Duration
	asJSON, wait bool
}

func (e *kubeExamination) run(ctx context.Context, env *Env) error {
	if err := checkInterval(e.interval); err != nil {
		return err
	}
	show := progress.New(env.Stderr)
	defer show.Done()
	report, err := cluster.Examine(ctx, cluster.Options{Access: e.access, Interval: e.interval, Nodes: kube.NodesRequest{
		Options: e.withImage(env), Command: "kubectl venturi doctor", Wait: e.wait, Say: show.Say}})
	show.Done()
	if report == nil || report.Report == nil {
		return err
	}
	print := cluster.Print
	if e.asJSON {
		print = func(w io.Writer, r *cluster.ClusterReport) error { return display.PrintJSON(w, r) }
	}
	if err := errors.Join(print(env.Stdout, report), err); err != nil {
		return err
	}
	if code := report.ExitCode(); code != verr.OK {
		return exitCode(code)
	}
	return nil
}
