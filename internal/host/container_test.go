package host

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// put writes a file of a made-up machine.
func put(t *testing.T, root, file, text string) {
	t.Helper()
	path := filepath.Join(root, file)
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestContainerFolders finds containers whose runtime keeps its state or their names elsewhere
// than most: docker with a data-root, of snap or without root, podman without root, nerdctl.
func TestContainerFolders(t *testing.T) {
	root := t.TempDir()
	put(t, root, "/etc/docker/daemon.json", `{"data-root":"/data/[docker]"}`)
	home := filepath.Join("/home", "ann", ".local", "share")
	const docker = `{"ID":"@","Name":"/NAME"}`
	for name, c := range map[string]struct{ state, file, text string }{
		"moved":    {"/run/docker/runtime-nvidia/moby/@/state.json", "/data/[docker]/containers/@/config.v2.json", docker},
		"snap":     {"/run/snap.docker/runtime-runc/moby/@/state.json", "/var/snap/docker/common/var-lib-docker/containers/@/config.v2.json", docker},
		"rootless": {"/run/user/1000/docker/runtime-runc/moby/@/state.json", home + "/docker/containers/@/config.v2.json", docker},
		"podman":   {"/run/user/1000/crun/@/status", home + "/containers/storage/overlay-containers/containers.json", `[{"id":"@","names":["NAME"]}]`},
		"nerdctl":  {"/run/containerd/runc/default/@/state.json", "/bundle/@/config.json", `{"annotations":{"nerdctl/name":"NAME"}}`},
	} {
		pid := 10 + len(name)
		fill := strings.NewReplacer("@", "c0ffee"+name, "NAME", name).Replace
		putProcess(t, root, pid, 1000)
		put(t, root, fill(c.state), fmt.Sprintf(`{"pid":%d,"bundle":"/bundle/c0ffee%s"}`, pid, name))
		put(t, root, fill(c.file), fill(c.text))
		want := fmt.Sprintf("/proc/%d/ns/net", pid)
		if file, err := containerNamespace(root, name); err != nil || file != want {
			t.Errorf("%s: %s, %v, want %s", name, file, err, want)
		}
	}
}

// putProcess makes a process that began at some time, in a namespace of its own.
func putProcess(t *testing.T, root string, pid, started int) {
	t.Helper()
	put(t, root, fmt.Sprintf("proc/%d/stat", pid), fmt.Sprintf("%d (a ) S b) S 1 1 1 0 -1 4194560 1 1 1 1 1 1 1 1 20 0 1 0 %d 1 1", pid, started))
	put(t, root, fmt.Sprintf("proc/%d/ns/net", pid), "")
}

func TestContainerNamespace(t *testing.T) {
	root := t.TempDir()
	const docker, pod, app, crio, podman = "d0c4aaaa", "5a4db0aa", "a44aaaaa", "c410aaaa", "b0d3aaaa"
	for pid := range 7 {
		putProcess(t, root, 10+pid, 1000+pid)
	}
	put(t, root, "/run/docker/runtime-runc/moby/"+docker+"/state.json", `{"id":"`+docker+`","init_process_pid":10,"init_process_start":1000}`)
	put(t, root, "/var/lib/docker/containers/"+docker+"/config.v2.json", `{"ID":"`+docker+`","Name":"/web","State":{"Pid":10}}`)

	// A pod of containerd's: the sandbox and the application share a namespace.
	for id, pid := range map[string]int{pod: 11, app: 12} {
		bundle := "/run/containerd/io.containerd.runtime.v2.task/k8s.io/" + id
		put(t, root, "/run/containerd/runc/k8s.io/"+id+"/state.json", fmt.Sprintf(
			`{"id":%q,"init_process_pid":%d,"init_process_start":%d,"config":{"labels":["x=y","bundle=%s"]}}`, id, pid, 990+pid, bundle))
		name := ""
		if id == app {
			name = `"io.kubernetes.cri.container-name":"nginx",`
		}
		put(t, root, bundle+"/config.json", `{"annotations":{`+name+`"io.kubernetes.cri.sandbox-name":"shop","io.kubernetes.cri.sandbox-namespace":"default"}}`)
	}
	if err := os.Remove(filepath.Join(root, "proc/12/ns/net")); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(filepath.Join(root, "proc/11/ns/net"), filepath.Join(root, "proc/12/ns/net")); err != nil {
		t.Fatal(err)
	}

	put(t, root, "/run/crun/"+crio+"/status", `{"pid":13,"process-start-time":1003,"bundle":"/run/containers/storage/overlay-containers/x/userdata"}`)
	put(t, root, "/run/containers/storage/overlay-containers/x/userdata/config.json",
		`{"annotations":{"io.kubernetes.container.name":"api","io.kubernetes.pod.name":"back","io.kubernetes.pod.namespace":"prod"}}`)
	put(t, root, "/run/crun/"+podman+"/status", `{"pid":14,"bundle":"/none"}`)
	put(t, root, "/var/lib/containers/storage/overlay-containers/containers.json", `[{"id":"`+podman+`","names":["db"]}]`)

	put(t, root, "/run/runc/reused/state.json", `{"id":"reused","init_process_pid":15,"init_process_start":7}`)
	put(t, root, "/run/runc/ended/state.json", `{"id":"ended","init_process_pid":99,"init_process_start":7}`)
	put(t, root, "/run/runc/broken/state.json", `{`)
	for name, pid := range map[string]int{
		"web": 10, docker: 10, docker[:4]: 10, "nginx": 12, "shop": 0, "default/shop": 0, "api": 13, "back": 13, "prod/back": 13, "db": 14,
	} {
		file, err := containerNamespace(root, name)
		want := fmt.Sprintf("/proc/%d/ns/net", pid)
		if err != nil || file != want && (pid != 0 || file != "/proc/11/ns/net" && file != "/proc/12/ns/net") {
			t.Errorf("%s: %s, %v, want %s", name, file, err, want)
		}
	}
	for _, name := range []string{"", "d0c", "we", "reused", "ended", "broken", "/web", "other"} {
		if file, err := containerNamespace(root, name); !errors.Is(err, errNoContainer) {
			t.Errorf("%q: %s, %v", name, file, err)
		}
	}
	put(t, root, "/run/runc/second/state.json", `{"id":"second","init_process_pid":16,"init_process_start":1006}`)
	put(t, root, "/var/lib/docker/containers/second/config.v2.json", `{"ID":"second","Name":"/web"}`)
	if file, err := containerNamespace(root, "web"); err == nil || !strings.Contains(err.Error(), docker+", second") {
		t.Errorf("two of a name: %s, %v", file, err)
	}
}
