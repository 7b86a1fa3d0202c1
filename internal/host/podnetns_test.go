package host

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A pod's namespace is that of a process in one of its cgroups, however the kubelet's driver
// writes them, in both hierarchies.
func TestPodNamespace(t *testing.T) {
	root := t.TempDir()
	for pid, groups := range map[string]string{
		"1":    "0::/init.scope\n",
		"20":   "4:cpu:/kubepods/burstable/pod0a1b2c3d-1111-2222-3333-444455556666/deadbeef\n",
		"30":   "0::/../../kubepods-pod0a1b2c3d_9999_2222_3333_444455556666.slice/cri-containerd-1.scope\n",
		"self": "0::/kubepods/pod0a1b2c3d-0000-0000-0000-000000000000\n",
	} {
		if err := os.MkdirAll(filepath.Join(root, "proc", pid), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, "proc", pid, "cgroup"), []byte(groups), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for uid, want := range map[string]string{
		"0a1b2c3d-1111-2222-3333-444455556666": "/proc/20/ns/net",
		"0a1b2c3d-9999-2222-3333-444455556666": "/proc/30/ns/net",
	} {
		if got, err := podNamespace(root, uid); got != want || err != nil {
			t.Errorf("%s: %s, %v, want %s", uid, got, err, want)
		}
	}
	if got, err := podNamespace(root, "0a1b2c3d-0000-0000-0000-000000000000"); !errors.Is(err, errNoPod) {
		t.Errorf("a pod that is not there: %s, %v", got, err)
	}
	for _, bad := range []string{"pod:", "pod:../../x", "pod:0a1b2c3d/..", "pod:ZZ"} {
		if file, err := NamespaceFile(bad); err == nil {
			t.Errorf("%s is read as %s", bad, file)
		}
	}
}
