package e2e_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/cluster"
	"github.com/venturi-net/venturi/internal/testenv/clustertest"
	"github.com/venturi-net/venturi/internal/verr"
)

const chart = "../../../charts/venturi"

// fastPathAlone are values of a chart that measures nothing.
const fastPathAlone = "image.name=x,watch.enabled=false,fastPath.enabled=true"

// helm runs Helm for one cluster and one namespace.
type helm struct {
	*plugin
	program, namespace string
}

func (h *helm) run(args ...string) (string, error) {
	cmd := exec.Command(h.program, append(args, "--namespace", h.namespace)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+h.Kubeconfig, "HOME="+h.folder)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// newHelm gives Helm for a namespace of its own, with a standard of PodSecurity.
func newHelm(t *testing.T, p *plugin, standard string) *helm {
	t.Helper()
	program, err := cluster.Helm(t.Context(), t.TempDir(), func(text string) { t.Log(text) })
	testenv.Must(t, err)
	return &helm{p, program, p.namespace(t, standard)}
}

// The chart lints, renders with every file of values, asks for the rights that are printed,
// and what it starts measures; when it is uninstalled, nothing is left.
func TestClusterChart(t *testing.T) {
	h := newHelm(t, newPlugin(t), "restricted")
	files, err := filepath.Glob(filepath.Join(chart, "ci", "*-values.yaml"))
	if err != nil || len(files) < 3 {
		t.Fatalf("files of values: %v, %v", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) { h.checkRendered(t, file) })
	}
	t.Run("keepCounters", h.checkKeepCounters)
	t.Run("ipv6", h.checkIPv6)
	t.Run("metrics", h.checkMetricsAddress)
	t.Run("refused", h.checkRefused)
	t.Run("apart", h.checkApart)
	t.Run("installed", h.checkInstalled)
}

// rendered are the objects of the chart, by their kinds.
func (h *helm) rendered(t *testing.T, args ...string) map[string]map[string]any {
	t.Helper()
	text, err := h.run(append([]string{"template", "net", chart}, args...)...)
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return objects(t, text)
}

// objects are those of a text in YAML, by their kinds.
func objects(t *testing.T, text string) map[string]map[string]any {
	t.Helper()
	found := map[string]map[string]any{}
	for decoder := yaml.NewDecoder(strings.NewReader(text)); ; {
		var object map[string]any
		err := decoder.Decode(&object)
		if err == io.EOF {
			return found
		}
		testenv.Must(t, err)
		kind, _ := object["kind"].(string)
		found[kind] = object
	}
}

func (h *helm) checkRendered(t *testing.T, values string) {
	if out, err := h.run("lint", chart, "--values", values); err != nil {
		t.Errorf("lint: %v: %s", err, out)
	}
	got := h.rendered(t, "--values", values)
	text, err := os.ReadFile(values)
	testenv.Must(t, err)
	measures := !strings.Contains(string(text), "watch: {enabled: false}")
	for kind, want := range map[string]bool{"Deployment": measures, "Role": measures, "Service": measures,
		"ServiceMonitor": strings.Contains(string(text), "serviceMonitor"), "DaemonSet": strings.Contains(string(text), "fastPath")} {
		if _, has := got[kind]; has != want {
			t.Errorf("a %s is there: %v", kind, has)
		}
	}
	// The program takes every flag: what it refuses is the last one.
	if measures {
		_, roles := h.plugin.run("rbac", "-n", h.namespace)
		if want := objects(t, roles)["Role"]["rules"]; !reflect.DeepEqual(got["Role"]["rules"], want) {
			t.Errorf("the chart's rights are %v, and rbac prints %v", got["Role"]["rules"], want)
		}
		h.checkArgs(t, got["Deployment"], "--interval=1s", "cannot measure every 1s")
	}
	if daemons := got["DaemonSet"]; daemons != nil {
		h.checkArgs(t, daemons, "--shadow=-1", "cannot compare packets of -1 flows")
	}
}

// checkArgs wants venturi to take the arguments of the container of an object, and to refuse but one
// more.
func (h *helm) checkArgs(t *testing.T, object map[string]any, refused, says string) {
	t.Helper()
	args := arguments(object)
	cmd := exec.Command(h.link(t, "venturi"), append(args, refused)...)
	cmd.Dir = t.TempDir()
	out, _ := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != verr.Usage || !strings.Contains(string(out), says) {
		t.Errorf("venturi %q: exit code %d: %s", args, cmd.ProcessState.ExitCode(), out)
	}
}

// arguments are those of the container of an object.
func arguments(object map[string]any) (args []string) {
	pod := object["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
	for _, arg := range pod["containers"].([]any)[0].(map[string]any)["args"].([]any) {
		args = append(args, arg.(string))
	}
	return args
}

// The counters that are kept are set as the page shows it; without them, all is carried.
func (h *helm) checkKeepCounters(t *testing.T) {
	for set, want := range map[string]string{"": "none", `,fastPath.keepCounters=conntrack\,rules`: "conntrack,rules"} {
		args := arguments(h.rendered(t, "--set", fastPathAlone+set)["DaemonSet"])
		if !slices.Contains(args, "--keep-counters="+want) {
			t.Errorf("set by %q, the arguments are %q", set, args)
		}
	}
}

// IPv6 is carried if it is asked for.
func (h *helm) checkIPv6(t *testing.T) {
	for set, want := range map[string]string{"": "false", ",fastPath.ipv6=true": "true"} {
		args := arguments(h.rendered(t, "--set", fastPathAlone+set)["DaemonSet"])
		if !slices.Contains(args, "--ipv6="+want) {
			t.Errorf("set by %q, the arguments are %q", set, args)
		}
	}
}

// Metrics are served at the node's own address, and not to whoever reaches another one.
func (h *helm) checkMetricsAddress(t *testing.T) {
	for set, want := range map[string]string{"": "--listen=[$(NODE_IP)]:9138", ",fastPath.metricsPort=0": ""} {
		got := ""
		for _, arg := range arguments(h.rendered(t, "--set", fastPathAlone+set)["DaemonSet"]) {
			if strings.HasPrefix(arg, "--listen") {
				got = arg
			}
		}
		if got != want {
			t.Errorf("set by %q, it has %q", set, got)
		}
	}
}

// Values that make no sense are refused by their schema.
func (h *helm) checkRefused(t *testing.T) {
	for _, c := range []struct{ set, says string }{
		{"", "image"},
		{"image.name=x,paths={tunnel}", "paths"},
		{"image.name=x,interval=daily", "interval"},
		{"image.name=x,nodes={a}", "nodes"},
		{"image.name=x,tolerations={a b}", "tolerations"},
		{"image.name=x,nodeAgent=true", "nodeAgent"},
		{"image.name=x,fastPath.metricsPort=70000", "metricsPort"},
		{"image.name=x,fastPath.keepCounters=devices", "keepCounters"},
		{"image.name=x,fastPath.ipv6=both", "ipv6"},
	} {
		args := []string{"template", "net", chart}
		if c.set != "" {
			args = append(args, "--set", c.set)
		}
		if out, err := h.run(args...); err == nil || !strings.Contains(out, "schema") || !strings.Contains(out, c.says) {
			t.Errorf("%q: %v: %s", c.set, err, out)
		}
	}
}

// A token that may run commands in pods is not where the privileged ones are, however that is asked for.
func (h *helm) checkApart(t *testing.T) {
	for _, set := range []string{"image.name=x,fastPath.enabled=true", "image.name=x,fastPath.enabled=true,watch.enabled=true"} {
		out, err := h.run("template", "net", chart, "--set", set)
		if err == nil || !strings.Contains(out, "add --set watch.enabled=false") || strings.Contains(out, "kind: ") {
			t.Errorf("%q: %v: %s", set, err, out)
		}
	}
}

func (h *helm) checkInstalled(t *testing.T) {
	before := h.names(t)
	out, err := h.run("install", "net", chart, "--set",
		"image.name="+clustertest.VenturiImage+",image.pullPolicy=Never,paths={pod,service},loads={tcp_lat},interval=10s,budget=2s")
	if err != nil {
		t.Fatalf("install: %v: %s", err, out)
	}
	metrics := "/api/v1/namespaces/" + h.namespace + "/services/net-venturi:metrics/proxy/metrics"
	var text string
	defer func() {
		if t.Failed() {
			t.Logf("the metrics are %s; the log is %s", text, h.log(t))
		}
	}()
	await(t, "a run is measured", func() bool {
		if err := h.Request(t.Context(), http.MethodGet, metrics, nil, &text); err != nil {
			text = err.Error()
		}
		return strings.Contains(text, `path="service"`)
	})
	h.uninstall(t, before)
}

// uninstall wants nothing to be left but what there was before.
func (h *helm) uninstall(t *testing.T, before []string) {
	t.Helper()
	if out, err := h.run("uninstall", "net"); err != nil {
		t.Fatalf("uninstall: %v: %s", err, out)
	}
	// A run whose rights went first ends by itself.
	for end := time.Now().Add(removal); ; time.Sleep(time.Second) {
		after := h.names(t)
		if reflect.DeepEqual(after, before) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("before: %v; %v after: %v", before, removal, after)
		}
	}
}

// names are those of all objects in the namespace that a chart or a run could leave.
func (h *helm) names(t *testing.T) (names []string) {
	t.Helper()
	for _, group := range []struct{ path, kinds string }{
		{"/api/v1", "pods,services,secrets,configmaps,serviceaccounts,persistentvolumeclaims"},
		{"/apis/apps/v1", "deployments,replicasets,daemonsets,controllerrevisions"}, {"/apis/batch/v1", "jobs"},
		{"/apis/rbac.authorization.k8s.io/v1", "roles,rolebindings"},
	} {
		for kind := range strings.SplitSeq(group.kinds, ",") {
			var list struct {
				Items []struct{ Metadata struct{ Name string } }
			}
			testenv.Must(t, h.Request(context.Background(), http.MethodGet, group.path+"/namespaces/"+h.namespace+"/"+kind, nil, &list))
			for _, item := range list.Items {
				if name := item.Metadata.Name; name != "default" && name != "kube-root-ca.crt" { // every namespace has these
					names = append(names, kind+"/"+name)
				}
			}
		}
	}
	return names
}

// log is what the pod of the chart has said.
func (h *helm) log(t *testing.T) (text string) {
	t.Helper()
	for _, name := range h.names(t) {
		if pod, ok := strings.CutPrefix(name, "pods/net-venturi-"); ok {
			_ = h.Request(t.Context(), http.MethodGet, "/api/v1/namespaces/"+h.namespace+"/pods/net-venturi-"+pod+"/log", nil, &text)
		}
	}
	return text
}
