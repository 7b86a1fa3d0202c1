package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
)

// Netns is a network namespace that was found on the machine.
type Netns struct {
	ID   NamespaceID
	Path string // a file of it; empty: the namespace of the process
	Name string // as a person would call it; empty: the namespace of the process
}

// FindNetns lists the network namespaces of the machine: first that of the process,
// then those with a name, then those of processes. Hidden is the number of
// processes that may not be looked at, of which nobody knows where they are.
func (r Reader) FindNetns() (found []Netns, hidden int, err error) {
	known := map[NamespaceID]bool{}
	add := func(id NamespaceID, path, name string) {
		if !known[id] {
			known[id] = true
			found = append(found, Netns{ID: id, Path: path, Name: name})
		}
	}
	own, err := ID(r.path("proc/self/ns/net"))
	if err != nil {
		return nil, 0, err
	}
	add(own, "", "")
	named, err := os.ReadDir(r.path(NamespaceFolder))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, 0, fmt.Errorf("list namespaces: %w", err)
	}
	for _, e := range named {
		path := r.path(NamespacePath(e.Name()))
		if id, err := ID(path); err == nil {
			add(id, path, e.Name())
		}
	}
	pids, err := r.pids()
	if err != nil {
		return nil, 0, err
	}
	for _, pid := range pids {
		path := r.path("proc", strconv.Itoa(pid), "ns/net")
		id, err := fileID(path)
		if errors.Is(err, fs.ErrPermission) {
			hidden++
		}
		if err != nil {
			continue // it ended
		}
		if !known[id] {
			add(id, path, fmt.Sprintf("pid %d (%s)", pid, r.line("proc", strconv.Itoa(pid), "comm")))
		}
	}
	return found, hidden, nil
}

// Running lists processes by their names, as far as they are among the wanted
// ones: the lowest pid of each.
func (r Reader) Running(wanted ...string) map[string]int {
	want := map[string]bool{}
	for _, w := range wanted {
		want[w] = true
	}
	running := map[string]int{}
	pids, _ := r.pids() // an error: none is to be seen
	for _, pid := range pids {
		name := r.line("proc", strconv.Itoa(pid), "comm")
		if _, known := running[name]; want[name] && !known {
			running[name] = pid
		}
	}
	return running
}

// HomeNetns is the file of the namespace that the machine itself lives in.
const HomeNetns = "/proc/1/ns/net"

// Text reads a file of the machine; "" if it cannot be read.
func (r Reader) Text(parts ...string) string {
	text, _ := os.ReadFile(r.path(parts...))
	return string(text)
}
