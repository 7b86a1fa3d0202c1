// Command kube is every program of a Kubernetes cluster in one binary: the name that
// it is started by says which. Programs that share their libraries are built and kept
// in a quarter of the time and space that they would take apart.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	manager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// programs is what the binary can be.
var programs = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": manager.NewControllerManagerCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"kube-proxy":              proxy.NewProxyCommand,
	"kubelet":                 func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
	"flanneld":                newFlannelCommand,
}

func main() {
	name := filepath.Base(os.Args[0])
	build, ok := programs[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "no program is called %s: start this binary by a link named kube-apiserver, kube-controller-manager, kube-scheduler, kube-proxy, kubelet or flanneld\n", name)
		os.Exit(2)
	}
	os.Exit(cli.Run(build()))
}
