package venturi_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Whatever writes to a machine is in internal/setting, internal/netcfg or
// internal/fastpath/kernel: undo can only be whole
// if there is one place where writes happen. These are the exceptions, each
// with what it writes.
var writers = []struct {
	importPath string
	functions  *regexp.Regexp
	by         map[string]string // package -> what it writes
	why        string
}{
	{
		"os", regexp.MustCompile(`^(WriteFile|Create|CreateTemp|OpenFile|Mkdir|MkdirAll|MkdirTemp|Remove|RemoveAll|Rename|Chmod|Chown|Link|Symlink|Truncate)$`),
		map[string]string{
			"internal/netcfg":            "the machine, inside the lab's namespaces",
			"internal/setting":           "one value of the machine, as the journal asks",
			"internal/fastpath/kernel":   "pins of programs",
			"internal/remote":            "the folder that ssh has put this very program in",
			"internal/lab":               "its lock and its private folder below /run",
			"internal/agent":             "its own socket, and how late timers of its own threads are",
			"internal/compare":           "the folder of a run, as the user asked for it",
			"internal/kernel":            "the store of kernels",
			"internal/mesh":              "the file of a result, as the user asked for it",
			"internal/journal":           "the journal itself",
			"internal/bench":             "the file that finished proofs are recorded in, as the user asked for it",
			"internal/bgp":               "config and state of a speaker, in the folder of its path",
			"internal/fastpath/bpf":      "pinned tables that do not fit any more",
			"internal/guest":             "the virtual machine whose first process it is",
			"internal/vm":                "the console's log, a config for `venturi guest`, and below /run what KVM was found to be",
			"internal/testenv":           "what tests need",
			"internal/testenv/agenttest": "keys and disks of virtual machines for tests",
			"internal/testenv/cluster":   "state, keys and cgroups of a cluster for tests",
			"internal/report/reporttest": "golden files",
			"cmd/venturi-image":          "the file that the image is asked for in",
		},
		"files of a machine are written by setting and netcfg alone",
	},
	{
		"github.com/vishvananda/netlink",
		regexp.MustCompile(`(Add|Del|Delete|Modify|Replace|Append|Change|Flush|Set)([A-Z]|$)|^Set`),
		map[string]string{"internal/netcfg": "links, addresses and routes", "internal/setting": "settings of devices", "internal/fastpath/kernel": "filters and neighbours of a fast path", "internal/testenv": "what tests need"},
		"links, addresses and routes are made by netcfg alone",
	},
	{
		"golang.org/x/sys/unix",
		regexp.MustCompile(`^(Mount|Unmount|Unshare|Kill|Tgkill|PidfdSendSignal|Reboot|Sethostname)$`),
		map[string]string{
			"internal/netcfg":          "namespaces and processes of the lab",
			"internal/setting":         "the process with which an earlier version held a setting, and its own view of /sys",
			"internal/fastpath/kernel": "the bpffs that the programs of a fast path are pinned in",
			"internal/guest":           "the virtual machine whose first process it is",
			"internal/testenv":         "what tests need",
			"internal/testenv/cluster": "mounts of the nodes of a cluster for tests",
		},
		"namespaces and processes are made and ended by netcfg alone",
	},
	{
		"syscall",
		regexp.MustCompile(`^(Mount|Unmount|Unshare|Kill|Exec|ForkExec|StartProcess)$`),
		map[string]string{"internal/testenv": "what tests need", "internal/testenv/cluster": "processes of a cluster for tests", "internal/netcfg": "processes of the lab"},
		"namespaces and processes are made and ended by netcfg alone",
	},
	{
		inModule("internal/netcfg"), regexp.MustCompile(`^Owned$`),
		map[string]string{
			"internal/lab":     "hands it on to the drivers of paths",
			"internal/testenv": "what tests need",
		},
		"only the lab owns namespaces",
	},
	{
		inModule("internal/netcfg"), regexp.MustCompile(`^(WithScratch|NewAnonymous)$`),
		map[string]string{
			"internal/feature":           "nothing that lasts: a probe tries things in a nameless namespace",
			"internal/testenv/agenttest": "the wire between virtual machines for tests",
			"internal/vm":                "the taps of cards that are joined to nothing, gone with the virtual machine",
		},
		"what is tried is tried by feature, and on cards of a virtual machine",
	},
	{
		inModule("internal/netcfg"), regexp.MustCompile(`^OpenGuest$`),
		map[string]string{"internal/guest": "the virtual machine whose first process it is"},
		"a machine of our own is set up by its first process",
	},
	{
		inModule("internal/netcfg"), regexp.MustCompile(`^(CurrentNetns|OpenNode)$`),
		map[string]string{
			"internal/bgp":      "the routes that a speaker learns, in the machine that it is on",
			"internal/fastpath": "the programs of a fast path, on the machine that it is on",
		},
		"a daemon of ours writes to its own namespace; all others are handed theirs",
	},
}

func TestWritesOnlyInWriters(t *testing.T) {
	for _, s := range allSources(t) {
		if s.test {
			continue
		}
		s.calls(func(importPath, function string, at tokenPosition) {
			for _, w := range writers {
				if importPath == w.importPath && w.functions.MatchString(function) && w.by[s.dir] == "" {
					t.Errorf("%s: %s.%s: %s", at, importPath, function, w.why)
				}
			}
		})
	}
}

// Nobody reads the environment or ends the process behind the back of main.
func TestProcessStateOnlyInMain(t *testing.T) {
	allowed := map[string][]string{
		"Exit":   {"cmd/venturi", "cmd/venturi-bench", "cmd/venturi-image"},
		"Args":   {"cmd/venturi", "cmd/venturi-bench", "cmd/venturi-image", "scripts", "internal/lab"}, // the lock names who holds it
		"Stdin":  {"cmd/venturi", "cmd/venturi-bench"},
		"Stdout": {"cmd/venturi", "cmd/venturi-bench"},
		"Stderr": {"cmd/venturi", "cmd/venturi-bench", "cmd/venturi-image"},
		"Getenv": {"cmd/venturi", "cmd/venturi-bench", "internal/tool", "internal/netcfg", "internal/setting", "internal/feature", // PATH, to find a program or for a child
			"internal/kernel", // where kernels are kept
			"internal/lab"},   // where the journal is, which gives cards back, and whose ssh connection must stay
		"Chdir":  nil,
		"Setenv": nil,
	}
	for _, s := range allSources(t) {
		if s.test || strings.HasPrefix(s.dir, "internal/testenv") {
			continue
		}
		s.calls(func(importPath, function string, at tokenPosition) {
			by, ruled := allowed[function]
			if importPath == "os" && ruled && !slices.Contains(by, s.dir) {
				t.Errorf("%s: os.%s: state of the process comes from cli.Env", at, function)
			}
		})
	}
}
