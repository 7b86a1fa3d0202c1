package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/sanitize"
)

// Containers are found by what their runtimes keep of them, with no client program and no
// daemon asked. The low-level runtimes (runc, crun) say which process a container began
// with; what is above them (docker, containerd, CRI-O, podman) gives it names.
//
// Runtimes without root keep that in folders of their users, who may write there what they
// like. A user's word counts for network namespaces that the user owns, and for names of
// the user's own containers.

// container is one whose process may still be there.
type container struct {
	id      string
	pid     int
	started string   // when the process did, as /proc says; empty: unknown
	names   []string // besides the id
	owner   uint32   // the user whose word this is
}

// ownedID is the id of a container, by the word of a user.
type ownedID struct {
	owner uint32
	id    string
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
	called := slices.DeleteFunc(containers(root), func(c container) bool { return !c.isCalled(name) || !c.runs(root) })
	if slices.ContainsFunc(called, container.isRoots) { // no user makes a name of root's ambiguous
		called = slices.DeleteFunc(called, func(c container) bool { return !c.isRoots() })
	}
	for _, c := range called {
		path := fmt.Sprintf("/proc/%d/ns/net", c.pid)
		space, err := fileID(filepath.Join(root, path))
		if err != nil || slices.Contains(spaces, space) || !c.mayName(filepath.Join(root, path)) { // it ended, or is in a pod with another
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

func (c container) isRoots() bool { return c.owner == 0 }

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

// mayName tells whether who says that the container has this network namespace can be trusted
// with that.
func (c *container) mayName(netns string) bool {
	if c.isRoots() || int(c.owner) == os.Geteuid() {
		return true
	}
	owner, err := netnsOwner(netns)
	return err == nil && owner == c.owner
}

// netnsOwner is the user who made the user namespace that a network namespace belongs to.
func netnsOwner(path string) (uint32, error) {
	netns, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer netns.Close()
	users, err := unix.IoctlRetInt(int(netns.Fd()), unix.NS_GET_USERNS)
	if err != nil {
		return 0, err
	}
	defer unix.Close(users)
	return unix.IoctlGetUint32(users, unix.NS_GET_OWNER_UID)
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
			c, bundle, ok := readContainer(root, file)
			if !ok {
				continue
			}
			c.names = slices.Concat(names[ownedID{c.owner, c.id}], bundleNames(root, bundle))
			all = append(all, c)
		}
	}
	return all
}

// readContainer reads what runc or crun keeps.
func readContainer(root, file string) (c container, bundle string, ok bool) {
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
	owner, ok := readState(root, file, &s)
	if !ok {
		return c, "", false
	}
	c = container{id: s.ID, pid: s.Pid + s.CrunPid, owner: owner}
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
func dockerNames(root string) map[ownedID][]string {
	const pattern = "containers/*/config.v2.json"
	var files []string
	for _, folder := range dockerRoots {
		found, _ := sanitize.Files(root, folder+"/"+pattern)
		files = append(files, found...)
	}
	var daemon struct {
		DataRoot string `json:"data-root"`
	}
	var ofRoot []string // root's docker keeps its data there, even if that is in a user's folder
	config, _ := filepath.EvalSymlinks(filepath.Join(root, "etc/docker/daemon.json"))
	if owner, ok := readState(root, config, &daemon); ok && daemon.DataRoot != "" {
		found, _ := sanitize.Files(filepath.Join(root, daemon.DataRoot), pattern)
		files = append(files, found...)
		if owner == 0 {
			ofRoot = found
		}
	}
	names := map[ownedID][]string{}
	for _, file := range files {
		var c struct{ ID, Name string }
		owner, ok := readOwned(file, &c)
		if ok && (owner == 0 && slices.Contains(ofRoot, file) || mayOwn(root, file, owner)) {
			of := ownedID{owner, c.ID}
			names[of] = append(names[of], strings.TrimPrefix(c.Name, "/"))
		}
	}
	return names
}

// storageNames gives those of podman and CRI-O, by id.
func storageNames(root string) map[ownedID][]string {
	names := map[ownedID][]string{}
	for _, pattern := range storages {
		files, _ := sanitize.Files(root, pattern)
		for _, file := range files {
			var list []struct {
				ID    string   `json:"id"`
				Names []string `json:"names"`
			}
			if owner, ok := readState(root, file, &list); ok {
				for _, c := range list {
					of := ownedID{owner, c.ID}
					names[of] = append(names[of], c.Names...)
				}
			}
		}
	}
	return names
}

// bundleNames gives what Kubernetes calls a container and its pod, as containerd and CRI-O
// note it beside the container's configuration; and its name in nerdctl.
func bundleNames(root, bundle string) (names []string) {
	var spec struct {
		Annotations map[string]string `json:"annotations"`
	}
	if _, ok := readState(root, filepath.Join(root, bundle, "config.json"), &spec); !ok {
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

// mostState bounds what is read of one file.
const mostState = 8 << 20

// readState reads what a runtime keeps, and tells whose it is: what is in a user's folder and not that
// user's is passed over.
func readState(root, file string, into any) (owner uint32, ok bool) {
	owner, ok = readOwned(file, into)
	return owner, ok && mayOwn(root, file, owner)
}

// readOwned reads a file that may be gone, or be written just now, and tells whose it is. It may also
// be a pipe or a link that a user made to mislead root: what is no file is passed over.
func readOwned(file string, into any) (owner uint32, ok bool) {
	fd, err := unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return 0, false
	}
	f := os.NewFile(uintptr(fd), file)
	defer f.Close()
	var is unix.Stat_t
	if err := unix.Fstat(fd, &is); err != nil || is.Mode&unix.S_IFMT != unix.S_IFREG {
		return 0, false
	}
	text, err := io.ReadAll(io.LimitReader(f, mostState+1))
	return is.Uid, err == nil && len(text) <= mostState && json.Unmarshal(text, into) == nil
}

// mayOwn tells whether a file of this owner can be where it is without a user's deceit. A home may
// be root's, with folders of the user in it: there the file's own folder tells the user.
func mayOwn(root, file string, owner uint32) bool {
	of := userFolder(root, file)
	if of == "" {
		return true
	}
	var folder unix.Stat_t
	err := unix.Stat(of, &folder)
	if err == nil && folder.Uid == 0 {
		err = unix.Stat(filepath.Dir(file), &folder)
	}
	return err == nil && folder.Uid == owner
}

// userFolder is that of the user in whose reach a file is; empty: it is in nobody's.
func userFolder(root, file string) string {
	for _, folders := range []string{"run/user", "home"} {
		if below, is := strings.CutPrefix(file, filepath.Join(root, folders)+"/"); is {
			user, _, _ := strings.Cut(below, "/")
			return filepath.Join(root, folders, user)
		}
	}
	return ""
}
