package host

import (
	"os"
	"path/filepath"
	"testing"
)

func TestThreadRoom(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  Limit
	}{
		"version 2, bound above": {map[string]string{
			"proc/self/cgroup":               "0::/a/b\n",
			"sys/fs/cgroup/a/b/pids.max":     "max\n",
			"sys/fs/cgroup/a/pids.max":       "4915\n",
			"sys/fs/cgroup/a/pids.current":   "15\n",
			"proc/sys/kernel/threads-max":    "63000\n",
			"proc/sys/kernel/pid_max":        "32768\n",
			"proc/loadavg":                   "0.1 0.2 0.3 1/468 999\n",
			"sys/fs/cgroup/a/b/pids.current": "10\n",
		}, Limit{4900, "pids.max of /sys/fs/cgroup/a is 4915, of which 15 are used"}},
		"version 1, in a container": {map[string]string{
			"proc/self/cgroup":                "12:memory:/\n3:pids:/\n",
			"sys/fs/cgroup/pids/pids.max":     "100\n",
			"sys/fs/cgroup/pids/pids.current": "120\n",
		}, Limit{0, "pids.max of /sys/fs/cgroup/pids is 100, of which 120 are used"}},
		"the kernel": {map[string]string{
			"proc/sys/kernel/threads-max": "63000\n",
			"proc/sys/kernel/pid_max":     "32768\n",
			"proc/loadavg":                "0.1 0.2 0.3 1/768 999\n",
		}, Limit{32000, "kernel.pid_max is 32768, of which 768 are used"}},
	} {
		r := Reader{Root: t.TempDir()}
		for file, text := range c.files {
			file = filepath.Join(r.Root, file)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got := r.ThreadRoom(); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
