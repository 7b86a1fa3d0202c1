package e2e_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/verr"
)

// runNamespace is the one that a run makes for itself.
const runNamespace = "/api/v1/namespaces/venturi-run"

// Whatever takes a part of a run away, what was measured is reported, and nothing is left.
func TestClusterRunLoses(t *testing.T) {
	for _, c := range []struct {
		name string
		take func(*testing.T, *plugin)
	}{
		{"a pod that is evicted", func(t *testing.T, p *plugin) {
			pod := p.serverPod(t)
			testenv.Must(t, p.Request(t.Context(), http.MethodPost, runNamespace+"/pods/"+pod+"/eviction", map[string]any{
				"apiVersion": "policy/v1", "kind": "Eviction", "metadata": map[string]any{"name": pod}}, nil))
		}},
		{"an agent that is out of memory", func(t *testing.T, p *plugin) { exhaustMemory(t, p.agents(t, "")[0]) }},
		{"its namespace", func(t *testing.T, p *plugin) {
			testenv.Must(t, p.Request(t.Context(), http.MethodDelete, runNamespace, nil, nil))
		}},
		{"the kubelet of a node", func(t *testing.T, p *plugin) {
			pids, err := p.PIDs("n2", "kubelet")
			if err != nil || len(pids) != 1 {
				t.Fatalf("kubelets: %v, %v", pids, err)
			}
			testenv.Must(t, syscall.Kill(pids[0], syscall.SIGKILL))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlugin(t)
			cmd, said := p.start(t)
			began := time.Now()
			c.take(t, p)
			_ = cmd.Wait()
			t.Logf("it ended after %v", time.Since(began).Round(100*time.Millisecond))
			if cmd.ProcessState.ExitCode() != verr.Partial || !strings.Contains(said.String(), "tcp_lat") {
				t.Errorf("exit code %d:\n%s", cmd.ProcessState.ExitCode(), said)
			}
			p.nothingLeft(t, removal, everything...)
		})
	}
}

// serverPod is the name of a run's pod at the server's end, which no Job makes anew.
func (p *plugin) serverPod(t *testing.T) string {
	t.Helper()
	var list struct {
		Items []struct{ Metadata struct{ Name string } }
	}
	testenv.Must(t, p.Request(t.Context(), http.MethodGet, runNamespace+"/pods?labelSelector=venturi.io/role%3Dserver", nil, &list))
	if len(list.Items) != 1 {
		t.Fatalf("pods: %+v", list)
	}
	return list.Items[0].Metadata.Name
}

// agents are the pids, on this machine, of agents that are spoken to, on a node or on all.
func (p *plugin) agents(t *testing.T, node string) (pids []int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	testenv.Must(t, err)
	for _, file := range files {
		args, _ := os.ReadFile(file)
		group, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cgroup"))
		if bytes.Contains(args, []byte("\x00agent\x00--stdio\x00")) && strings.Contains(string(group), filepath.Join("/venturi-cluster-"+p.Name, node)+"/") {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			testenv.Must(t, err)
			pids = append(pids, pid)
		}
	}
	return pids
}

// exhaustMemory has the kernel kill a process for the memory that its container takes: the limit is
// lowered to little more than what is in use, and a file in memory takes up the rest. The process
// that writes it is small, and is none of a pod's, so that it is the last one to be killed.
func exhaustMemory(t *testing.T, pid int) {
	t.Helper()
	group, used, limit := memoryGroup(t, pid)
	text, err := os.ReadFile(filepath.Join(group, used))
	testenv.Must(t, err)
	inUse, err := strconv.Atoi(strings.TrimSpace(string(text)))
	testenv.Must(t, err)
	testenv.Must(t, os.WriteFile(filepath.Join(group, limit), []byte(strconv.Itoa(inUse+8<<20)), 0))
	folder := t.TempDir()
	testenv.Must(t, syscall.Mount("tmpfs", folder, "tmpfs", 0, "size=512m"))
	t.Cleanup(func() { testenv.Must(t, syscall.Unmount(folder, syscall.MNT_DETACH)) })
	writer := exec.Command("sh", "-c", `echo $$ >"$1/cgroup.procs" && exec head -c 512M /dev/zero >"$2/file"`, "sh", group, folder)
	_ = writer.Run() // it is killed, too
	await(t, "the process that has no memory ends", func() bool { return syscall.Kill(pid, 0) != nil })
}

// memoryGroup is the control group that counts a process's memory, and its files of what is in use
// and what is allowed.
func memoryGroup(t *testing.T, pid int) (group, used, limit string) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	testenv.Must(t, err)
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case fields[1] == "memory":
			return "/sys/fs/cgroup/memory" + fields[2], "memory.usage_in_bytes", "memory.limit_in_bytes"
		case fields[0] == "0":
			group = "/sys/fs/cgroup" + fields[2]
		}
	}
	return group, "memory.current", "memory.max"
}
