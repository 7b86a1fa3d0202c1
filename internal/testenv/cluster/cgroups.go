package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

const cgroupRoot = "/sys/fs/cgroup"

// cgroup is the group of a cluster's node, below the root of each hierarchy.
func cgroup(cluster, node string) string {
	return filepath.Join("venturi-cluster-"+cluster, node)
}

// hierarchies are the mount points of cgroups: one each controller in version 1, one in all
// in version 2.
func hierarchies() ([]string, error) {
	if _, err := os.Stat(filepath.Join(cgroupRoot, "cgroup.controllers")); err == nil {
		return []string{cgroupRoot}, nil
	}
	entries, err := os.ReadDir(cgroupRoot)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, e := range entries {
		if e.IsDir() {
			found = append(found, filepath.Join(cgroupRoot, e.Name()))
		}
	}
	return found, nil
}

// makeCgroups makes the groups that kubelets put their pods in.
func makeCgroups(o Options) error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	for _, h := range all {
		for i := range o.Nodes {
			dir := filepath.Join(h, cgroup(o.Name, nodeName(i+1)))
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return fmt.Errorf("make cgroup: %w", err)
			}
			// A new group of version 1 has no cores and takes no process.
			for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
				for _, group := range []string{filepath.Dir(dir), dir} {
					if err := inherit(filepath.Join(group, file)); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// inherit copies a file's value from the group above; a file that is not there is not needed.
func inherit(file string) error {
	above := filepath.Join(filepath.Dir(filepath.Dir(file)), filepath.Base(file))
	value, err := os.ReadFile(above)
	if errors.Is(err, fs.ErrNotExist) || len(value) <= 1 {
		return nil
	}
	if err != nil {
		return err
	}
	return os.WriteFile(file, value, 0o644)
}

// removeCgroups removes the groups of a cluster, once the kernel has ended its processes.
func removeCgroups(name string) error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	return await(context.Background(), "remove cgroups of cluster "+name, 45*time.Second, func() (bool, string) {
		for _, h := range all {
			if err := removeTree(filepath.Join(h, cgroup(name, ""))); err != nil {
				return false, err.Error()
			}
		}
		return true, ""
	})
}

// removeTree removes a group and those below it: the files in them are the kernel's.
func removeTree(top string) error {
	var groups []string
	err := filepath.WalkDir(top, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			groups = append(groups, path)
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, g := range slices.Backward(groups) {
		if err := os.Remove(g); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
