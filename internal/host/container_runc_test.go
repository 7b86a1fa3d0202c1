package host_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/testenv"
)

// TestRunc finds a container of the real runc, by its name and by how its id begins.
func TestRunc(t *testing.T) {
	testenv.Root(t)
	runc, err := exec.LookPath("runc")
	if err != nil {
		t.Skip("runc is not installed")
	}
	id := fmt.Sprintf("venturi-test-%d", time.Now().UnixNano())
	bundle := t.TempDir()
	do := func(args ...string) {
		t.Helper()
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir = bundle
		// A file, for a container keeps a pipe open.
		said, err := os.Create(filepath.Join(bundle, "said"))
		if err != nil {
			t.Fatal(err)
		}
		defer said.Close()
		cmd.Stdout, cmd.Stderr = said, said
		if err := cmd.Run(); err != nil {
			text, _ := os.ReadFile(said.Name())
			t.Fatalf("%v: %v: %s", args, err, text)
		}
	}
	for _, dir := range []string{"usr", "proc", "dev", "sys"} {
		if err := os.MkdirAll(filepath.Join(bundle, "rootfs", dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"bin", "lib", "lib64"} {
		if err := os.Symlink("usr/"+dir, filepath.Join(bundle, "rootfs", dir)); err != nil {
			t.Fatal(err)
		}
	}
	do(runc, "spec")
	file := filepath.Join(bundle, "config.json")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var spec map[string]any
	if err := json.Unmarshal(text, &spec); err != nil {
		t.Fatal(err)
	}
	process := spec["process"].(map[string]any)
	process["terminal"], process["args"] = false, []string{"sleep", "1000"}
	var mounts []any
	for _, m := range spec["mounts"].([]any) {
		if m.(map[string]any)["type"] != "cgroup" {
			mounts = append(mounts, m)
		}
	}
	spec["mounts"] = append(mounts, map[string]any{"destination": "/usr", "type": "bind", "source": "/usr", "options": []string{"rbind", "ro"}})
	spec["annotations"] = map[string]string{"io.kubernetes.cri.sandbox-name": "venturi-test-pod", "io.kubernetes.cri.sandbox-namespace": "default"}
	if text, err = json.Marshal(spec); err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	do(runc, "run", "--detach", "--pid-file", "pid", id)
	t.Cleanup(func() { _ = exec.Command(runc, "delete", "--force", id).Run() })
	pid, err := os.ReadFile(filepath.Join(bundle, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	want := "/proc/" + string(pid) + "/ns/net"
	for _, name := range []string{id, id[:len(id)-1], "venturi-test-pod", "default/venturi-test-pod"} {
		if got, err := host.NamespaceFile("container:" + name); err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", name, got, err, want)
		}
	}
	do(runc, "delete", "--force", id)
	if got, err := host.NamespaceFile("container:" + id); err == nil {
		t.Errorf("after its end: %s", got)
	}
}
