package venturi_test

import (
	"slices"
	"strings"
	"testing"
)

// inModule is a package of this module, as the rules below write it.
func inModule(p string) string { return module + "/" + p }

// allowedImports says what a package may import of this module. A package that is not
// here may import what no other rule forbids.
var allowedImports = []struct {
	dir     string
	imports []string
	why     string
}{
	{"result", nil, "the record is the one promise to the outside: it stands alone"},
	{"internal/verr", nil, "everybody returns its errors"},
	{"internal/sanitize", nil, "everybody prints by it"},
	{"internal/stats", nil, "it is mathematics, and must be judged without the rest"},
	{"internal/search", []string{"internal/stats"}, "it is an algorithm over an interface, and is judged by simulation"},
	{"internal/analysis", []string{"result", "internal/stats"}, "any old record can be judged offline"},
	{"internal/gate", []string{"internal/stats", "internal/analysis", "internal/verr"}, "it knows verdicts, and no way to print them"},
	{"internal/report/chart", nil, "it draws marks and axes, whatever they stand for"},
	{"internal/report/unit", []string{"result", "internal/analysis"}, "it prints quantities, for whatever shows them"},
	{"internal/report/view", append(slices.Clone(reportsMay), "internal/report/unit"), whyReports},
	{"internal/report/table", append(slices.Clone(reportsMay), "internal/report/view", "internal/report/unit"), whyReports},
	{"internal/report/markdown", append(slices.Clone(reportsMay), "internal/report/view"), whyReports},
	{"internal/report/figure", append(slices.Clone(reportsMay), "internal/report/view", "internal/report/unit", "internal/report/chart"), whyReports},
	{"internal/report/html", append(slices.Clone(reportsMay), "internal/report/view", "internal/report/figure", "internal/report/chart"), whyReports},
	{"internal/report/csv", append(slices.Clone(reportsMay), "internal/report/view", "internal/report/unit"), whyReports},
	{"internal/report/benchstat", append(slices.Clone(reportsMay), "internal/report/view", "internal/report/unit"), whyReports},
	{"internal/report/openmetrics", append(slices.Clone(reportsMay), "internal/report/view"), whyReports},
	{"internal/report/qperf", append(slices.Clone(reportsMay), "internal/report/view", "internal/report/unit"), whyReports},
	{"internal/report/layout", append(slices.Clone(reportsMay), "internal/report/view", "internal/report/unit", "internal/report/table", "internal/report/markdown"), whyReports},
	{"internal/report/change", append(slices.Clone(reportsMay), "internal/report/view", "internal/report/unit", "internal/report/table", "internal/report/markdown"), whyReports},
	{"internal/report", append(slices.Clone(reportsMay), "internal/report/view", "internal/report/figure", "internal/report/table", "internal/report/markdown", "internal/report/html", "internal/report/csv", "internal/report/benchstat", "internal/report/openmetrics", "internal/report/qperf"), whyReports},
	{"internal/nlmsg", nil, "it is what all readers of netlink share, and knows no table of the kernel's"},
	{"internal/nft", []string{"internal/nlmsg"}, "it decodes rules for whoever judges them: with a writer in reach it would write one day"},
	{"internal/nft/match", nil, "it makes matches for whoever writes rules"},
	{"internal/host", []string{"result", "internal/verr", "internal/nlmsg", "internal/nft"}, "it reads the machine; with a writer in reach it would write one day"},
	{"internal/setting", []string{"result", "internal/verr", "internal/host", "internal/nlmsg", "internal/nft/match"}, "it does single writes, and knows nobody's purpose"},
	{"internal/netcfg", []string{"internal/host", "internal/nft/match", "internal/nlmsg"}, "it writes to namespaces of ours, for whoever hands it one"},
	{"internal/fastpath/kernel", []string{"internal/fastpath/topology", "internal/host", "internal/netcfg", "internal/nlmsg"}, "it is the fast path's kernel calls, and knows nothing of when they are due"},
	{"internal/remote", []string{"internal/sanitize", "internal/verr"}, "it carries a stream to a machine, and knows nothing of what is said"},
	{"internal/kube", []string{"internal/host", "internal/remote", "internal/kube/cni", "internal/sanitize", "internal/verr"}, "it carries streams to the agents of a cluster, and knows nothing of what is said"},
	{"internal/kube/cni", nil, "objects of the API go in, and settings come out: it asks no cluster"},
	{"internal/doctor/cluster", []string{"internal/agent", "internal/doctor", "internal/fleet", "internal/kube", "internal/kube/cni", "internal/verr"}, "it changes nothing on the nodes: it reads them through agents"},
	{"internal/tune/cluster", []string{"internal/fleet", "internal/host", "internal/knob", "internal/kube", "internal/kube/cni", "internal/setting", "internal/tune", "internal/verr"}, "it changes a cluster by the API, and its nodes by commands of their own"},
	{"internal/mesh", []string{"internal/agent", "internal/experiment", "internal/host", "internal/kube", "internal/load", "internal/remote", "internal/stats", "internal/verr", "result"}, "it measures and judges, and knows no way to print"},
	{"internal/mesh/meshreport", []string{"internal/mesh", "internal/stats", "internal/report/chart", "internal/report/figure", "internal/report/html", "internal/report/markdown", "internal/report/table", "internal/report/unit", "internal/report/view"}, "it prints what was found, and measures nothing"},
	{"internal/attachment", []string{"internal/host", "internal/verr"}, "it looks at what somebody else built: it has no writer in reach"},
	{"internal/journal", []string{"internal/setting", "internal/host", "internal/verr"}, "it undoes what any version of any knob wrote: it knows settings, not purposes"},
	{"internal/knob", []string{"internal/host", "internal/setting", "internal/verr"}, whyKnobs},
	{"internal/knob/cpu", knobsMay, whyKnobs},
	{"internal/knob/nic", append(slices.Clone(knobsMay), "internal/knob/stack"), whyKnobs},
	{"internal/knob/stack", knobsMay, whyKnobs},
	{"internal/knob/vswitch", append(slices.Clone(knobsMay), "internal/ovs"), whyKnobs},
	{"internal/knob/k8s", []string{"internal/knob", "internal/setting", "internal/yamledit", "internal/verr"}, "a manifest is a file: nothing is asked of a cluster"},
	{"internal/knob/table", []string{"internal/knob", "internal/knob/cpu", "internal/knob/nic", "internal/knob/stack", "internal/knob/vswitch", "internal/knob/k8s", "internal/verr"}, "it lists all knobs, and is above those who have them"},
	{"internal/yamledit", nil, "text goes in, and text comes out"},
	{"internal/doctor", []string{"internal/host", "internal/nft", "internal/knob", "internal/knob/table", "internal/verr"}, "it changes nothing: it has no writer in reach, and of knobs takes names and scopes"},
	{"internal/kernel", []string{"internal/verr", "internal/feature"}, "it is files in a folder, known before anything is started"},
	{"internal/feature", []string{"internal/verr", "internal/host", "internal/netcfg", "internal/fastpath/kernel"}, "a probe is asked before anything else exists"},
	{"internal/ovs", []string{"internal/host", "internal/netcfg", "internal/setting", "internal/feature", "internal/verr"}, "it runs a switch wherever it is told to, for any path"},
	{"internal/ovn", []string{"internal/host", "internal/netcfg", "internal/feature", "internal/ovs"}, "it puts switches under a central, and knows them by ovs alone"},
	{"internal/bgp", []string{"internal/host", "internal/netcfg", "internal/verr"}, "a speaker is a daemon: it knows its file and its machine, not the lab"},
	{"internal/fastpath/bpf", nil, "it is what the kernel runs, and the layout of its tables"},
	{"internal/fastpath/allowlist", []string{"internal/nlmsg"}, "it is the form of tables, and knows nothing of what is in them"},
	{"internal/fastpath/audit", []string{"internal/fastpath/allowlist", "internal/nft", "internal/nlmsg"}, "it judges what it reads; with a writer in reach it would write one day"},
	{"internal/fastpath/readers", []string{"internal/fastpath/allowlist", "internal/nlmsg"}, "it judges messages of the kernel's, and asks for none"},
	{"internal/fastpath/topology", []string{"internal/fastpath/allowlist", "internal/fastpath/audit", "internal/fastpath/readers", "internal/nft", "internal/nlmsg", "internal/host"}, "it follows what it reads; with a writer in reach it would write one day"},
	{"internal/fastpath/shadow", []string{"internal/fastpath/bpf"}, "it compares packets, and knows nothing of who carries them"},
	{"internal/fastpath/lease", nil, "it is arithmetic over a clock, and is judged without one"},
	{"internal/fastpath", []string{"internal/fastpath/bpf", "internal/fastpath/kernel", "internal/fastpath/lease", "internal/fastpath/shadow", "internal/fastpath/topology", "internal/fastpath/audit", "internal/nft", "internal/nlmsg", "internal/host", "internal/netcfg", "internal/verr"}, "a fast path is a daemon: it knows its file and its machine, not the lab"},
	{"internal/fastpath/discover", []string{"internal/fastpath", "internal/fastpath/topology", "internal/nlmsg", "internal/host", "internal/verr"}, "it reads what somebody else wired; with a writer in reach it would write one day"},
	{"internal/fastpath/node", []string{"internal/fastpath", "internal/fastpath/kernel", "internal/fastpath/shadow", "internal/host", "internal/journal", "internal/netcfg", "internal/sanitize", "internal/setting", "internal/verr"}, "it brings a fast path to a node by the journal: what it carries is the plan's business"},
	{"internal/path", append(slices.Clone(siblingsMay), "internal/attachment", "internal/ovs", "internal/ovn", "internal/bgp", "internal/fastpath", "internal/fastpath/topology", "internal/vm", "internal/kernel"), whySiblings},
	{"internal/load", []string{"internal/host", "internal/verr", "result"}, "it says what can be offered, and opens no socket"},
	{"internal/load/engine", []string{"internal/host", "internal/load", "internal/load/goodput", "internal/load/pace", "internal/load/thread", "internal/verr", "result"}, whySiblings},
	{"internal/load/goodput", nil, "it counts, and moves nothing"},
	{"internal/load/pace", []string{"internal/load"}, "it says when to send, and sends nothing"},
	{"internal/load/thread", []string{"internal/host"}, "it is a thread of the kernel, whatever its work"},
	{"internal/meter", append(slices.Clone(siblingsMay), "internal/fastpath/bpf"), whySiblings + "; a meter reads tables that programs have left"},
	{"internal/tool", siblingsMay, whySiblings},
}

var siblingsMay = []string{"internal/host", "internal/netcfg", "internal/feature", "result", "internal/verr"}

// reportsMay is what every format may import beside the text of a report.
var reportsMay = []string{"result", "internal/stats", "internal/analysis"}

const whyReports = "a report is made from a record and nothing else, and no format knows another"

// knobsMay is what the knobs of a host may import.
var knobsMay = []string{"internal/knob", "internal/host", "internal/setting", "internal/feature", "internal/verr"}

const whyKnobs = "a knob says what is to be written; tune writes it, by the journal"

const whySiblings = "path, load, meter and tool are siblings: each can be understood, tested and replaced alone"

// everywhere is the package that all of ours may import: names from outside reach
// errors, lists of files and reports alike.
const everywhere = "internal/sanitize"

func TestOwnImports(t *testing.T) {
	for _, s := range allSources(t) {
		for _, rule := range allowedImports {
			if s.dir != rule.dir || s.test {
				continue
			}
			for _, p := range s.imports() {
				own, ok := strings.CutPrefix(p, module+"/")
				if own == everywhere && s.dir != "result" {
					continue
				}
				if ok && own != s.dir && !slices.Contains(rule.imports, own) {
					t.Errorf("%s imports %s: %s", s.path, own, rule.why)
				}
			}
		}
	}
	for _, rule := range allowedImports {
		found := false
		for _, s := range allSources(t) {
			found = found || s.dir == rule.dir
		}
		if !found {
			t.Errorf("the rule for %s holds for no file: was the package renamed?", rule.dir)
		}
	}
}

// reserved says which packages alone may import something. Tests may import
// what they like of it, except where the rule says otherwise.
var reserved = []struct {
	what  string // an import path; with /... everything below it too
	by    []string
	tests bool // holds for tests too
	why   string
}{
	{"os/exec", []string{"internal/guest", "internal/tool", "internal/remote", "internal/netcfg", "internal/setting", "internal/kernel", "internal/testenv", "internal/testenv/agenttest"}, false,
		"no product code asks a program what the kernel could tell: tools are run by tool, agents started by netcfg and, on other machines, by remote through ssh, packages fetched by the package manager, commands in a virtual machine run by guest, roles of a test binary by testenv"},
	{"golang.org/x/sys/unix", []string{"internal/bench/pods", "internal/host", "internal/nlmsg", "internal/nft", "internal/nft/match", "internal/fastpath/audit", "internal/fastpath/readers", "internal/fastpath/discover", "internal/fastpath/topology", "internal/netcfg", "internal/setting", "internal/fastpath/kernel", "internal/load/engine", "internal/load/thread", "internal/iperf3", "internal/meter", "internal/guest", "internal/vm", "internal/kernel", "internal/journal", "internal/testenv", "internal/testenv/agenttest", "internal/testenv/traffic"}, false,
		"raw system calls stay where their pitfalls are known"},
	{"github.com/vishvananda/netns", nil, true,
		"it moves the calling thread and leaves it there: host.Do does not"},
	{"github.com/vishvananda/netlink/...", []string{"internal/host", "internal/nlmsg", "internal/nft", "internal/fastpath/audit", "internal/fastpath/readers", "internal/fastpath/discover", "internal/fastpath/topology", "internal/netcfg", "internal/setting", "internal/fastpath/kernel", "internal/feature", "internal/meter", "internal/testenv"}, false,
		"who talks netlink can write to a machine: paths and the lab go through netcfg"},
	{"github.com/google/nftables/...", []string{"internal/host", "internal/nft/match", "internal/netcfg", "internal/setting", "internal/feature", "internal/testenv"}, false,
		"as netlink"},
	{"github.com/mdlayher/genetlink", []string{"internal/setting"}, false, "as netlink"},
	{"github.com/safchain/ethtool", []string{"internal/host", "internal/netcfg", "internal/setting", "internal/testenv", "internal/testenv/traffic"}, false,
		"as netlink"},
	{"github.com/ovn-org/libovsdb/...", []string{"internal/ovs", "internal/ovn"}, false,
		"paths say what they want of a switch, not in which tables it is written"},
	{"google.golang.org/grpc/...", []string{"internal/agent", "internal/agent/agentpb"}, false,
		"the wire between controller and agent is the agent package's secret"},
	{"github.com/osrg/gobgp/...", []string{"internal/bgp"}, true,
		"the protocol is the bgp package's secret"},
	{"github.com/spf13/cobra", []string{"internal/cli", "internal/bench/benchcli", "internal/testenv/cluster/bin", "internal/testenv/cluster/helm"}, true,
		"flags end where the work begins; Kubernetes' programs are commands of cobra's"},
	{"github.com/spf13/pflag", []string{"internal/cli"}, true, "as cobra"},
	{inModule("internal/cli"), []string{"cmd/venturi", "cmd/venturi-bench", "internal/bench/benchcli", "internal/cli", "internal/kube"}, true,
		"the command line is the outermost layer; tests of kube, below it, run commands against their API server"},
	{inModule("internal/display"), []string{"internal/cli"}, true,
		"what a command shows is no business of what it shows"},
	{inModule("internal/load/engine"), []string{"internal/agent", "internal/bench", "internal/compare", "internal/verify"}, false,
		"loads run in agents: who plans a series or reads its record opens no sockets"},
	{inModule("internal/bench/..."), []string{"cmd/venturi-bench", "internal/bench", "internal/bench/benchcli", "internal/fastpath/e2e"}, true,
		"benchmarks of Venturi itself are no part of the product; what one checks under load, tests of the fast path check on more paths"},
	{"k8s.io/...", []string{"internal/kube", "internal/testenv/cluster/bin"}, true,
		"what a cluster is made of is the kube package's secret"},
	{"go.yaml.in/yaml/v3", []string{"internal/study", "internal/yamledit", "internal/knob/k8s", "internal/kube/cni", "internal/remote", "internal/tune/cluster"}, false,
		"only study files, files of machines and the manifests whose single values knobs change are YAML; who carries a study out or prints it knows nothing of that"},
	{inModule("studies"), []string{"internal/study"}, true, "a study file is read and checked in one place"},
	{inModule("internal/study"), []string{"internal/cli"}, false,
		"a study asks for comparisons and tables; neither compare nor report depends on what asks"},
	{inModule("internal/testenv"), []string{"internal/report/reporttest", "internal/testenv/agenttest", "internal/testenv/traffic", "internal/testenv/fastpathtest", "internal/testenv/comparetest"}, false,
		"it makes and breaks namespaces for tests, and is no part of the product"},
	{inModule("internal/testenv/cluster/..."), nil, false, "it raises a Kubernetes cluster for tests, and is no part of the product"},
	{"github.com/hashicorp/yamux", []string{"internal/guest", "internal/vm"}, true, "the two ends of a channel know what it is made of, and nobody else"},
	{"github.com/cavaliergopher/cpio", []string{"internal/vm"}, false, "the first file system of a guest is made in one place"},
	{"unsafe", []string{"internal/load/engine", "internal/load/thread", "internal/host", "internal/nft", "internal/fastpath/kernel", "internal/netcfg", "internal/setting", "internal/meter", "internal/tool"}, true,
		"only where a system call wants a pointer"},
	{"net/http", []string{"internal/watch", "internal/kube"}, false, "nothing here fetches pages, only watch serves one, of metrics, and kube reads the API server's clock off its answers"},
	{"al.essio.dev/pkg/shellescape", []string{"internal/sanitize"}, false, "words of commands are quoted in one place"},
}

// testCluster is how the folders of what raises a cluster begin: all of it is for tests.
const testCluster = "internal/testenv/cluster"

func TestReservedImports(t *testing.T) {
	for _, s := range allSources(t) {
		for _, rule := range reserved {
			forTests := s.test || strings.HasPrefix(s.dir, testCluster)
			if s.generated || forTests && !rule.tests || slices.Contains(rule.by, s.dir) {
				continue
			}
			if s.dir == "internal/testenv" && rule.what == inModule("internal/testenv") {
				continue
			}
			prefix, below := strings.CutSuffix(rule.what, "/...")
			for _, p := range s.imports() {
				if p == prefix || below && strings.HasPrefix(p, prefix+"/") {
					t.Errorf("%s imports %s: %s", s.path, p, rule.why)
				}
			}
		}
	}
}
