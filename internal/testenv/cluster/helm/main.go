// Command helm does with a chart what the program of that name does: it lints, renders,
// installs and uninstalls it, by Helm's own packages.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/cli"
	"helm.sh/helm/v3/pkg/cli/values"
	"helm.sh/helm/v3/pkg/getter"
)

// waitLimit bounds how long an installation may take to be ready, or to be gone.
const waitLimit = 2 * time.Minute

func main() {
	var o options
	root := &cobra.Command{Use: "helm", SilenceUsage: true}
	flags := root.PersistentFlags()
	flags.StringSliceVarP(&o.values.ValueFiles, "values", "f", nil, "files of values")
	flags.StringArrayVar(&o.values.Values, "set", nil, "KEY=VALUE")
	flags.StringVarP(&o.namespace, "namespace", "n", "default", "namespace of the release")
	root.AddCommand(
		o.command("lint CHART", 1, o.lint),
		o.command("template NAME CHART", 2, o.template),
		o.command("install NAME CHART", 2, o.install),
		o.command("uninstall NAME", 1, o.uninstall),
	)
	if root.Execute() != nil {
		os.Exit(1)
	}
}

// options is what the flags say.
type options struct {
	values    values.Options
	namespace string
}

func (o *options) command(use string, args int, run func(ctx context.Context, out io.Writer, args []string) error) *cobra.Command {
	return &cobra.Command{Use: use, Args: cobra.ExactArgs(args), RunE: func(cmd *cobra.Command, args []string) error {
		return run(context.Background(), cmd.OutOrStdout(), args)
	}}
}

// merged are the values of all files and flags.
func (o *options) merged() (map[string]any, error) {
	return o.values.MergeValues(getter.All(cli.New()))
}

// configuration is what actions on a cluster take.
func (o *options) configuration() (*action.Configuration, error) {
	settings, c := cli.New(), new(action.Configuration)
	settings.SetNamespace(o.namespace)
	return c, c.Init(settings.RESTClientGetter(), o.namespace, "secret", func(string, ...any) {})
}

func (o *options) lint(_ context.Context, out io.Writer, args []string) error {
	values, err := o.merged()
	if err != nil {
		return err
	}
	lint := action.NewLint()
	lint.Strict, lint.Namespace = true, o.namespace
	result := lint.Run(args, values)
	for _, m := range result.Messages {
		fmt.Fprintln(out, m)
	}
	return errors.Join(result.Errors...)
}

// rendered is the version of Kubernetes that charts are rendered for without a cluster.
var rendered = chartutil.KubeVersion{Version: "v1.34.4", Major: "1", Minor: "34"}

// template renders without a cluster.
func (o *options) template(ctx context.Context, out io.Writer, args []string) error {
	a := action.NewInstall(new(action.Configuration))
	a.DryRun, a.ClientOnly, a.Replace, a.KubeVersion = true, true, true, &rendered
	return o.runInstall(ctx, out, a, args)
}

func (o *options) install(ctx context.Context, out io.Writer, args []string) error {
	c, err := o.configuration()
	if err != nil {
		return err
	}
	a := action.NewInstall(c)
	a.Wait, a.Timeout = true, waitLimit
	return o.runInstall(ctx, out, a, args)
}

func (o *options) runInstall(ctx context.Context, out io.Writer, a *action.Install, args []string) error {
	a.ReleaseName, a.Namespace = args[0], o.namespace
	values, err := o.merged()
	if err != nil {
		return err
	}
	chart, err := loader.Load(args[1])
	if err != nil {
		return err
	}
	release, err := a.RunWithContext(ctx, chart, values)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, strings.TrimSpace(release.Manifest))
	return err
}

func (o *options) uninstall(_ context.Context, _ io.Writer, args []string) error {
	c, err := o.configuration()
	if err != nil {
		return err
	}
	a := action.NewUninstall(c)
	a.Wait, a.Timeout = true, waitLimit
	_, err = a.Run(args[0])
	return err
}
