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

	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/cluster"
)

func TestMain(m *testing.M) {
	testenv.Main(m, testenv.Roles{"raise": raiseAndWait})
}

// object is one of the API.
type object = map[string]any

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
func TestClusterCarriesTraffic(t *testing.T) {
	c := Shared(t)
	checkTraffic(t, c)
	// containerd makes a folder in /opt unless it is given another.
	if out, err := c.Nodes[0].Enter(t.Context(), "test", "-d", filepath.Join(filepath.Dir(c.Kubeconfig), "data/n1/opt/bin")).CombinedOutput(); err != nil {
		t.Errorf("containerd's folder is not among the node's files: %v: %s", err, out)
	}
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
