package kube

import (
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/verr"
)

// Level is how much of the nodes the agents may see.
type Level int

// The levels. A plain agent is an end of traffic itself. A node agent enters the network
// namespaces of the ends.
const (
	Plain Level = iota
	Node
)

func (l Level) String() string { return []string{"plain", "node"}[l] }

// PodSecurity is the standard that a namespace has to allow for the level.
func (l Level) PodSecurity() string { return []string{"restricted", "privileged"}[l] }

// pathHelp says of each path where it leads.
var pathHelp = []struct {
	name, text string
	level      Level
}{
	{"host", "between the nodes' own networks, by their InternalIP", Node},
	{"pod", "from a pod to one on the other node", Plain},
	{"pod-local", "from a pod to one on the same node", Plain},
	{"service", "from a pod by a ClusterIP to the pod on the other node", Plain},
	{"nodeport", "from a pod by the other node's address and port to the pod there", Plain},
}

// PathHelp describes the paths, a line each.
func PathHelp() string {
	var b strings.Builder
	for _, p := range pathHelp {
		at := ""
		if p.level == Node {
			at = " (with --node-agents)"
		}
		sanitize.Fprintf(&b, "  %-10s %s%s\n", p.name, p.text, at)
	}
	return b.String()
}

// pathNames are those that a level has, in the order of the table.
func pathNames(l Level) (names []string) {
	for _, p := range pathHelp {
		if p.level <= l {
			names = append(names, p.name)
		}
	}
	return names
}

// Paths completes and checks the list of paths: without one, all that the level has. The first
// is the baseline, named or not: the host network where the level has it, else path pod.
func (o Options) Paths(asked []string) ([]string, error) {
	known := pathNames(o.Level)
	if o.From != "" {
		known = []string{"host", "pod"}
	}
	if len(asked) == 0 {
		return known, nil
	}
	var out []string
	for _, name := range asked {
		switch {
		case slices.Contains(out, name):
			return nil, verr.New(verr.Usage, "cannot measure path "+name+" twice", "a path in a cluster can be measured only once", "name it once")
		case slices.Contains(known, name):
		case slices.Contains(pathNames(Node), name) && o.From == "":
			return nil, verr.New(verr.Usage, "cannot measure path "+name+" between unprivileged pods", "they have their own networks, and cannot reach the node's",
				"add --node-agents, which runs one agent on each of the two nodes with the rights that `kubectl venturi rbac` prints")
		default:
			return nil, verr.New(verr.Usage, "cannot measure path "+name+" in a cluster", "the paths there are "+strings.Join(known, ", "), "choose from these, or name none for all")
		}
		out = append(out, name)
	}
	if i := slices.Index(out, known[0]); i >= 0 {
		out = slices.Delete(out, i, i+1)
	}
	return slices.Insert(out, 0, known[0]), nil
}
