package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/venturi-net/venturi/internal/sanitize"
)

// Containers are found by what their runtimes keep of them, with no client program and no
// daemon asked. The low-level runtimes (runc, crun) say which process a container began
// with; what is above them (docker, containerd, CRI-O, podman) gives it names.

// container is one whose process may still be there.
type container struct {
	id      string
	pid     int
	started string   // when the process did, as /proc says; empty: unknown
	names   []string // besides the id
}

// errNoContainer is that nothing of that name runs.
var errNoContainer = errors.New("no container of that name runs here under docker, containerd, CRI-O or podman")

// containerStates are where runtimes keep their state, by what they are called there.
// The files of runc are state.json, those of crun status.
var containerStates = []string{
	"run/runc/*/state.json", "run/user/*/runc/*/state.json", "run/crun/*/status", "run/user/*/crun/*/status",
	"run/containerd/runc/*/*/state.json", "run/containerd/runc/*/*/status",
	"run/docker/runtime-*/*/*/state.json", "run/docker/runtime-*/*/*/status",
	"run/user/*/docker/runtime-*/*/*/state.json", "run/snap.docker/runtime-*/*/*/state.json",
}

// dockerRoots are folders where docker keeps its data, but for one that its configuration names.
var dockerRoots = []string{"var/lib/docker", "var/snap/docker/common/var-lib-docker", "home/*/.local/share/docker"}

// storages are lists of containers of podman and CRI-O.
var storages = []string{
	"var/lib/containers/storage/*-containers/*containers.json", "run/containers/storage/*-containers/*containers.json",
	"home/*/.local/share/containers/storage/*-containers/*containers.json",
}

// leastID is how much of a container's id tells it apart.
const leastID = 4

// ContainerNamespace gives the file of the network namespace of a running container: by its
// name, its id or how that begins, or by a pod's, as POD or NAMESPACE/POD.
func ContainerNamespace(name string) (string, error) { return containerNamespace("/", name) }

func containerNamespace(root, name string) (string, error) {
	found, spaces := []string{}, []NamespaceID{}
	file := ""
	for _, c := range containers(root) {
		if !c.isCalled(name) || !c.runs(root) {
			continue
		}
		path := fmt.Sprintf("/proc/%d/ns/net", c.pid)
		space, err := fileID(filepath.Join(root, path))
		if err != nil || slices.Contains(spaces, space) { // it ended, or is in a pod with another
			continue
		}
		file, spaces, found = path, append(spaces, space), append(found, c.id)
	}
	switch len(found) {
	case 0:
		return "", errNoContainer
	case 1:
		return file, nil
	}
	slices.Sort(found)
	return "", fmt.Errorf("%d containers with networks of their own are called that: %s", len(found), strings.Join(found, ", "))
}

func (c *container) isCalled(name string) bool {
	return slices.Contains(c.names, name) || len(name) >= leastID && strings.HasPrefix(c.id, name)
}

// runs tells whether the container's process is there, and not another with its number.
func (c *container) runs(root string) bool {
	text, err := os.ReadFile(filepath.Join(root, fmt.Sprintf("proc/%d/stat", c.pid)))
	if err != nil {
		return false
	}
	const state, started = 0, 19 // of what follows the name, which may hold anything
	fields := strings.Fields(string(text[strings.LastIndex(string(text), ")")+1:]))
	return len(fields) > started && fields[state] != "Z" && (c.started == "" || c.started == fields[started])
}

// containers lists all that runtimes know of.
func containers(root string) (all []container) {
	names := dockerNames(root)
	for id, more := range storageNames(root) {
		names[id] = append(names[id], more...)
	}
	for _, pattern := range containerStates {
		files, _ := sanitize.Files(root, pattern)
		for _, file := range files {
			c, bundle, ok := readContainer(file)
			if !ok {
				continue
			}
			c.names = slices.Concat(names[c.id], bundleNames(filepath.Join(root, bundle)))
			all = append(all, c)
		}
	}
	return all
}

// readContainer reads what runc or crun keeps.
func readContainer(file string) (c container, bundle string, ok bool) {
	var s struct {
		ID      string `json:"id"` // runc's
		Pid     int    `json:"init_process_pid"`
		Started uint64 `json:"init_process_start"`
		Config  struct {
			Labels []string `json:"labels"`
		} `json:"config"`

		CrunPid     int    `json:"pid"`
		CrunStarted uint64 `json:"process-start-time"`
		Bundle      string `json:"bundle"`
	}
	if !readJSON(file, &s) {
		return c, "", false
	}
	c = container{id: s.ID, pid: s.Pid + s.CrunPid}
	if c.id == "" {
		c.id = filepath.Base(filepath.Dir(file))
	}
	if started := s.Started + s.CrunStarted; started > 0 {
		c.started = strconv.FormatUint(started, 10)
	}
	bundle = s.Bundle
	for _, label := range s.Config.Labels {
		if dir, is := strings.CutPrefix(label, "bundle="); is {
			bundle = dir
		}
	}
	return c, bundle, c.pid > 0
}

// dockerNames gives the names of docker's containers, by id.
func dockerNames(root string) map[string][]string {
	const pattern = "containers/*/config.v2.json"
	var files []string
	for _, folder := range dockerRoots {
		found, _ := sanitize.Files(root, folder+"/"+pattern)
		files = append(files, found...)
	}
	var daemon struct {
		DataRoot string `json:"data-root"`
	}
	if readJSON(filepath.Join(root, "etc/docker/daemon.json"), &daemon) && daemon.DataRoot != "" {
		found, _ := sanitize.Files(filepath.Join(root, daemon.DataRoot), pattern)
		files = append(files, found...)
	}
	names := map[string][]string{}
	for _, file := range files {
		var c struct{ ID, Name string }
		if readJSON(file, &c) {
			names[c.ID] = append(names[c.ID], strings.TrimPrefix(c.Name, "/"))
		}
	}
	return names
}

// storageNames gives those of podman and CRI-O, by id.
func storageNames(root string) map[string][]string {
	names := map[string][]string{}
	for _, pattern := range storages {
		files, _ := sanitize.Files(root, pattern)
		for _, file := range files {
			var list []struct {
				ID    string   `json:"id"`
				Names []string `json:"names"`
			}
			if readJSON(file, &list) {
				for _, c := range list {
					names[c.ID] = append(names[c.ID], c.Names...)
				}
			}
		}
	}
	return names
}

// bundleNames gives what Kubernetes calls a container and its pod, as containerd and CRI-O
// note it beside the container's configuration; and its name in nerdctl.
func bundleNames(bundle string) (names []string) {
	var spec struct {
		Annotations map[string]string `json:"annotations"`
	}
	if !readJSON(filepath.Join(bundle, "config.json"), &spec) {
		return nil
	}
	if name := spec.Annotations["nerdctl/name"]; name != "" {
		names = append(names, name)
	}
	for _, keys := range [][3]string{
		{"io.kubernetes.cri.container-name", "io.kubernetes.cri.sandbox-name", "io.kubernetes.cri.sandbox-namespace"},
		{"io.kubernetes.container.name", "io.kubernetes.pod.name", "io.kubernetes.pod.namespace"},
	} {
		name, pod, namespace := spec.Annotations[keys[0]], spec.Annotations[keys[1]], spec.Annotations[keys[2]]
		if name != "" {
			names = append(names, name)
		}
		if pod != "" {
			names = append(names, pod, namespace+"/"+pod)
		}
	}
	return names
}

// readJSON reads a file that may be gone, or be written just now.
func readJSON(file string, into any) bool {
	text, err := os.ReadFile(file)
	return err == nil && json.Unmarshal(text, into) == nil
}
