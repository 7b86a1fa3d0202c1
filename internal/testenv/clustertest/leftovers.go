package clustertest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/testenv/cluster"
)

// limit bounds what a cluster takes to do something small, on a busy machine.
const limit = 3 * time.Minute

func await(t testing.TB, what string, ask func() (bool, string)) {
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

// checkNothingLeft looks for processes, mounts, cgroups and files of a cluster.
func checkNothingLeft(t testing.TB, c *cluster.Raised) {
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
	groups, _ := sanitize.Files("/sys/fs/cgroup", "*/venturi-cluster-"+c.Name)
	for _, g := range groups {
		left = append(left, "cgroup "+g)
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	if strings.Contains(string(mounts), filepath.Dir(c.Kubeconfig)) {
		left = append(left, "a mount")
	}
	// Every process of the cluster has the path of its state or of its name in its arguments,
	// in its cgroup or is the first one of a namespace.
	procs, _ := sanitize.Files("/proc", "[0-9]*")
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
