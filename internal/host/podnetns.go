package host

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// podPrefix begins the identifier of a Kubernetes pod, by which its namespace is named.
const podPrefix = "pod:"

// podUID is how Kubernetes identifies a pod: no part of a path.
var podUID = regexp.MustCompile(`^[0-9a-f][0-9a-f-]{7,63}$`)

// errNoPod is that no process of a pod is to be seen.
var errNoPod = errors.New("no process of this pod runs here, or the machine's processes are not to be seen")

// podNamespace gives the file of a pod's network namespace: that of any process in a cgroup
// that has the pod's identifier in its path, as each kubelet names it.
func podNamespace(root, uid string) (string, error) {
	r := Reader{Root: root}
	pids, err := r.pids()
	if err != nil {
		return "", err
	}
	systemd := strings.ReplaceAll(uid, "-", "_") // its cgroups have no hyphens in a name
	for _, pid := range pids {
		text, err := os.ReadFile(r.path("proc", strconv.Itoa(pid), "cgroup"))
		if err != nil {
			continue // it ended
		}
		if groups := string(text); strings.Contains(groups, "pod"+uid) || strings.Contains(groups, "pod"+systemd) {
			return fmt.Sprintf("/proc/%d/ns/net", pid), nil
		}
	}
	return "", errNoPod
}
