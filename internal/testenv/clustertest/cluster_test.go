package clustertest

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/cluster"
)

func TestMain(m *testing.M) {
	testenv.Main(m, testenv.Roles{"raise": raiseAndWait})
}

// object is one of the API.
type object = map[string]any

// limit bounds what a cluster takes to do something small, on a busy machine.
const limit = 3 * time.Minute

// namespace makes one for the test.
func namespace(t *testing.T, c *cluster.Raised) (path string) {
	t.Helper()
	name := "test-" + strings.ToLower(testenv.LabName())
	testenv.Must(t, c.Request(t.Context(), http.MethodPost, "/api/v1/namespaces", object{"metadata": object{"name": name}}, nil))
	t.Cleanup(func() {
		if err := c.Request(context.Background(), http.MethodDelete, "/api/v1/namespaces/"+name, nil, nil); err != nil {
			t.Error(err)
		}
	})
	path = "/api/v1/namespaces/" + name
	await(t, "the namespace has its service account", func() (bool, string) {
		err := c.Request(t.Context(), http.MethodGet, path+"/serviceaccounts/default", nil, nil)
		return err == nil, fmt.Sprint(err)
	})
	return path
}

func await(t *testing.T, what string, ask func() (bool, string)) {
	t.Helper()
	seen := ""
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		var ok bool
		if ok, seen = ask(); ok {
			return
		}
	}
	t.Fatalf("%s: not within %s; seen last: %s", what, limit, seen)
}

// pod makes one that runs the tool image, and waits until it is in a phase.
func pod(t *testing.T, c *cluster.Raised, ns, name, node, phase string, host bool, args ...string) (addr string) {
	t.Helper()
	testenv.Must(t, c.Request(t.Context(), http.MethodPost, ns+"/pods", object{
		"metadata": object{"name": name, "labels": object{"app": name}},
		"spec": object{
			"nodeName": node, "hostNetwork": host, "restartPolicy": "Never", "terminationGracePeriodSeconds": 1,
			"containers": []object{{"name": "c", "image": cluster.ToolImage, "imagePullPolicy": "Never", "args": args}},
		},
	}, nil))
	await(t, "pod "+name+" is "+phase, func() (bool, string) {
		var p struct {
			Status struct {
				Phase, PodIP string
			}
		}
		if err := c.Request(t.Context(), http.MethodGet, ns+"/pods/"+name, nil, &p); err != nil {
			return false, err.Error()
		}
		addr = p.Status.PodIP
		if p.Status.Phase == "Failed" && phase != "Failed" {
			t.Fatalf("pod %s has failed: %s", name, logOf(t, c, ns, name))
		}
		return p.Status.Phase == phase, fmt.Sprintf("%+v", p.Status)
	})
	return addr
}

func logOf(t *testing.T, c *cluster.Raised, ns, name string) (text string) {
	t.Helper()
	testenv.Must(t, c.Request(t.Context(), http.MethodGet, ns+"/pods/"+name+"/log", nil, &text))
	return text
}

// checkTraffic sends requests from pods on one node to a pod on another, straight and by
// its Service.
func checkTraffic(t *testing.T, c *cluster.Raised) {
	t.Helper()
	ns := namespace(t, c)
	addr := pod(t, c, ns, "web", "n2", "Running", false, "serve", ":8080")
	var service struct{ Spec struct{ ClusterIP string } }
	testenv.Must(t, c.Request(t.Context(), http.MethodPost, ns+"/services", object{
		"metadata": object{"name": "web"},
		"spec":     object{"selector": object{"app": "web"}, "ports": []object{{"port": 80, "targetPort": 8080}}},
	}, &service))
	for _, from := range []struct {
		name, url string
		host      bool
	}{
		{"to-pod", "http://" + addr + ":8080", false},
		{"to-service", "http://" + service.Spec.ClusterIP, false},
		{"from-host", "http://" + addr + ":8080", true},
	} {
		pod(t, c, ns, from.name, "n1", "Succeeded", from.host, "get", from.url)
		if text := logOf(t, c, ns, from.name); !strings.HasPrefix(text, "web ") {
			t.Errorf("%s: the answer is %q, not of web", from.name, text)
		}
	}
}

// The shared cluster: Flannel's vxlan and kube-proxy by iptables.
func TestClusterCarriesTraffic(t *testing.T) { checkTraffic(t, Shared(t)) }

// Another wiring; and when the cluster was taken down, nothing is left of it.
func TestClusterHostGateway(t *testing.T) {
	c := Raise(t, cluster.Options{Backend: "host-gw", ProxyMode: "nftables"})
	t.Run("traffic", func(t *testing.T) { checkTraffic(t, c) })
	// containerd makes a folder in /opt unless it is given another.
	if out, err := c.Nodes[0].Enter(t.Context(), "test", "-d", filepath.Join(filepath.Dir(c.Kubeconfig), "data/n1/opt/bin")).CombinedOutput(); err != nil {
		t.Errorf("containerd's folder is not among the node's files: %v: %s", err, out)
	}
	// Both ways of wiring are really there.
	for _, args := range [][]string{{"nft", "list", "table", "ip", "kube-proxy"}, {"ip", "route", "get", "10.244.1.1"}} {
		out, err := c.Nodes[0].Enter(t.Context(), args...).CombinedOutput()
		if err != nil {
			t.Errorf("%v: %v: %s", args, err, out)
		}
		if args[0] == "ip" && strings.Contains(string(out), "flannel") {
			t.Errorf("host-gw sends pods' packets by a tunnel: %s", out)
		}
	}
	testenv.Must(t, cluster.Down(c.Name))
	checkNothingLeft(t, c)
}

// However the cluster's owner or holder dies, nothing is left: at once, or with the next
// command.
func TestClusterKilled(t *testing.T) {
	Shared(t)
	t.Run("owner", func(t *testing.T) {
		name := testenv.LabName()
		var out bytes.Buffer
		args := append(testenv.RoleCommand(t, "raise"), Program(t), name)
		owner := exec.Command(args[0], args[1:]...)
		owner.Stdout, owner.Stderr = &out, &out
		testenv.Must(t, owner.Start())
		var c *cluster.Raised
		t.Cleanup(func() { testenv.Must(t, cluster.Down(name)) })
		await(t, "the cluster is up", func() (bool, string) {
			var err error
			c, err = cluster.Find(name)
			return err == nil, out.String()
		})
		owner.Process.Kill()
		owner.Wait()
		checkNothingLeft(t, c)
	})
	t.Run("holder", func(t *testing.T) {
		c := Raise(t, cluster.Options{Nodes: 1})
		testenv.Must(t, syscall.Kill(c.Holder, syscall.SIGKILL))
		await(t, "the cluster's first process has ended", func() (bool, string) {
			return syscall.Kill(c.Keeper, 0) == syscall.ESRCH, fmt.Sprintf("%d lives", c.Keeper)
		})
		testenv.Must(t, cluster.Down(c.Name))
		checkNothingLeft(t, c)
	})
}

// raiseAndWait raises a cluster and is killed.
func raiseAndWait(args []string) int {
	lifeline, _, err := os.Pipe()
	if err == nil {
		_, err = cluster.Start(context.Background(), args[1], cluster.Options{Name: args[2], Nodes: 1}, lifeline, os.Stdout)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	select {}
}

// checkNothingLeft looks for processes, mounts, cgroups and files of a cluster.
func checkNothingLeft(t *testing.T, c *cluster.Raised) {
	t.Helper()
	await(t, "nothing is left of the cluster", func() (bool, string) {
		left := leftOf(c)
		return len(left) == 0, strings.Join(left, ", ")
	})
}

func leftOf(c *cluster.Raised) (left []string) {
	if _, err := os.Stat(filepath.Dir(c.Kubeconfig)); err == nil {
		left = append(left, "folder "+filepath.Dir(c.Kubeconfig))
	}
	groups, _ := filepath.Glob("/sys/fs/cgroup/*/venturi-cluster-" + c.Name)
	for _, g := range groups {
		left = append(left, "cgroup "+g)
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	if strings.Contains(string(mounts), filepath.Dir(c.Kubeconfig)) {
		left = append(left, "a mount")
	}
	// Every process of the cluster has the path of its state or of its name in its arguments,
	// in its cgroup or is the first one of a namespace.
	procs, _ := filepath.Glob("/proc/[0-9]*")
	for _, p := range procs {
		args, _ := os.ReadFile(p + "/cmdline")
		groups, _ := os.ReadFile(p + "/cgroup")
		if strings.Contains(string(args), "/run/"+c.Name+"/") || strings.Contains(string(groups), "venturi-cluster-"+c.Name+"/") {
			left = append(left, fmt.Sprintf("process %s (%s)", filepath.Base(p), bytes.ReplaceAll(args, []byte{0}, []byte{' '})))
		}
	}
	for _, pid := range append([]int{c.Holder, c.Keeper}, pidsOf(c)...) {
		if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil && !strings.Contains(string(stat), ") Z ") {
			left = append(left, fmt.Sprintf("process %d", pid))
		}
	}
	return left
}

func pidsOf(c *cluster.Raised) (pids []int) {
	for _, n := range c.Nodes {
		pids = append(pids, n.PID)
	}
	return pids
}
