package cpu

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/verr"
)

// advice is a knob that is only read: what it shows is changed by other means.
type advice struct {
	name   string
	get    func(knob.Machine) (knob.Reading, error)
	reason string // it is not changed here
	do     string // instead
}

// Get is of [knob.Knob].
func (k advice) Get(m knob.Machine, _ knob.Target) (knob.Reading, error) { return k.get(m) }

// Plan is of [knob.Knob]: there is none.
func (k advice) Plan(knob.Machine, knob.Target, string) ([]setting.Write, error) {
	return nil, verr.New(verr.Missing, "cannot set "+k.name, k.reason, k.do)
}

// cpuSMT is two threads to a core.
var cpuSMT = knob.Entry{
	Facts: knob.Facts{
		Name:       "cpu.smt",
		Title:      "Whether each core runs two threads (SMT, Hyper-Threading)",
		Values:     "only read",
		Scope:      knob.ScopeMachine,
		Helps:      []knob.Benefit{knob.Throughput, knob.Latency},
		Risk:       "half of the cores disappear: interrupt and RPS masks shift, and pinned pods lose their cores",
		Needs:      "bare metal",
		Grade:      knob.GradeC,
		Evidence:   "ESnet: very inconsistent results, especially on AMD",
		Undo:       "it is not changed",
		ManualOnly: "removing cores moves things that no undo restores exactly, and a kubelet does not expect it",
	},
	Knob: advice{
		name: "cpu.smt", reason: "cores that go away take masks and pins with them, which no undo brings back",
		do: "set it in the firmware, or by nosmt on the kernel's command line",
		get: func(m knob.Machine) (knob.Reading, error) {
			v, err := m.Settings.Read(setting.Setting{Backend: "kernel", Key: cpuFolder + "smt/control"})
			if errors.Is(err, os.ErrNotExist) {
				return knob.Reading{}, noFiles(m, "cpu.smt", "it takes a kernel with CONFIG_HOTPLUG_SMT")
			}
			return knob.Reading{Value: strings.TrimSpace(v.String())}, err
		},
	},
}

// vmTHP is large pages.
var vmTHP = knob.Entry{
	Facts: knob.Facts{
		Name:     "vm.thp",
		Title:    "Which memory gets huge pages automatically (transparent huge pages)",
		Values:   "always, madvise, never",
		Scope:    knob.ScopeMachine,
		Helps:    []knob.Benefit{knob.Latency},
		Risk:     "programs that use much memory may slow down",
		Needs:    "latency outliers that the kernel's memory compaction explains",
		Grade:    knob.GradeC,
		Evidence: "set by profiles of tuned; nobody gives a number for a network",
		Undo:     "the old choice is written back; memory that is already allocated stays as it is",
	},
	Knob: cpuFiles{
		name: "vm.thp", pattern: "/sys/kernel/mm/transparent_hugepage/enabled", check: knob.OneOf("always", "madvise", "never"),
		trials: []string{"never", "madvise"}, needs: "it takes a kernel with CONFIG_TRANSPARENT_HUGEPAGE",
	},
}

// bootCmdline is what the kernel was started with.
var bootCmdline = knob.Entry{
	Facts: knob.Facts{
		Name:       "boot.cmdline",
		Title:      "Kernel boot parameters that affect networking",
		Values:     "only read: iommu=pt, skew_tick=1, nohz_full, isolcpus, intel_idle.max_cstate, mitigations and the like",
		Scope:      knob.ScopeMachine,
		Helps:      []knob.Benefit{knob.Latency, knob.Throughput},
		Risk:       "the host must reboot, and may not come up",
		Needs:      "access to the boot loader",
		Grade:      knob.GradeB,
		Evidence:   "up to 40 % for iommu=pt at 100 Gb/s (ESnet)",
		Undo:       "it is not changed",
		ManualOnly: "it needs a reboot",
	},
	Knob: advice{
		name: "boot.cmdline", reason: "it needs a reboot",
		do: "change it by the boot loader's own tools, such as grubby or /etc/default/grub",
		get: func(m knob.Machine) (knob.Reading, error) {
			v, err := m.Settings.Read(setting.Setting{Backend: "kernel", Key: "/proc/cmdline"})
			if err != nil {
				return knob.Reading{}, err
			}
			var set []string
			for _, word := range strings.Fields(v.String()) {
				name, _, _ := strings.Cut(word, "=")
				if slices.Contains(bootWords, name) {
					set = append(set, word)
				}
			}
			if len(set) == 0 {
				return knob.Reading{Value: "none"}, nil
			}
			return knob.Reading{Value: strings.Join(set, " ")}, nil
		},
	},
}

var bootWords = []string{
	"iommu", "intel_iommu", "amd_iommu", "skew_tick", "nohz", "nohz_full", "isolcpus", "rcu_nocbs", "irqaffinity",
	"intel_idle.max_cstate", "processor.max_cstate", "idle", "intel_pstate", "amd_pstate", "mitigations", "nosmt", "hugepages",
}

// numaPlace is on which side of a machine what runs.
var numaPlace = knob.Entry{
	Facts: knob.Facts{
		Name:       "numa.place",
		Title:      "Whether pods and switches run on the card's NUMA node",
		Values:     "only read: the node of each network card",
		Scope:      knob.ScopeMachine,
		Helps:      []knob.Benefit{knob.Latency, knob.Throughput},
		Risk:       "pods find no room when they may run on one node only",
		Needs:      "more than one node",
		Grade:      knob.GradeB,
		Evidence:   "the wrong socket can halve throughput (ESnet, for interrupts and programs together)",
		Undo:       "it is not changed",
		ManualOnly: "it needs a kubelet with another policy, and new pods",
	},
	Knob: advice{
		name: "numa.place", reason: "where pods run is the scheduler's to say",
		do: "set topologyManagerPolicy and cpuManagerPolicy of the kubelet, and make the pods anew", get: cardsNodes,
	},
}

func cardsNodes(m knob.Machine) (knob.Reading, error) {
	root := filepath.Join("/", m.Root)
	nodes, _ := sanitize.Files(root, "sys/devices/system/node/node[0-9]*")
	if len(nodes) < 2 {
		return knob.Reading{Value: "one node"}, nil
	}
	files, err := sanitize.Files(root, "sys/class/net/*/device/numa_node")
	if err != nil {
		return knob.Reading{}, err
	}
	var cards []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if n, bad := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && bad == nil && n >= 0 {
			cards = append(cards, filepath.Base(filepath.Dir(filepath.Dir(file)))+"="+strconv.Itoa(n))
		}
	}
	return knob.Reading{Value: strings.Join(cards, " "), Note: strconv.Itoa(len(nodes)) + " nodes"}, nil
}
