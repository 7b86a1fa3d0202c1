package host

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/klauspost/cpuid/v2"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/result"
)

// sysctls are the settings of a data path that a record keeps, as they are
// named below /proc/sys with dots.
var sysctls = []string{
	"net.bridge.bridge-nf-call-iptables",
	"net.core.busy_poll",
	"net.core.busy_read",
	"net.core.default_qdisc",
	"net.core.gro_normal_batch",
	"net.core.netdev_budget",
	"net.core.netdev_budget_usecs",
	"net.core.netdev_max_backlog",
	"net.core.rmem_default",
	"net.core.rmem_max",
	"net.core.rps_sock_flow_entries",
	"net.core.wmem_default",
	"net.core.wmem_max",
	"net.ipv4.conf.all.rp_filter",
	"net.ipv4.ip_forward",
	"net.ipv4.tcp_congestion_control",
	"net.ipv4.tcp_ecn",
	"net.ipv4.tcp_mtu_probing",
	"net.ipv4.tcp_notsent_lowat",
	"net.ipv4.tcp_rmem",
	"net.ipv4.tcp_slow_start_after_idle",
	"net.ipv4.tcp_timestamps",
	"net.ipv4.tcp_wmem",
	"net.netfilter.nf_conntrack_max",
}

// Named is a network namespace and what to call it in a record.
type Named struct {
	Name string `json:"name"`
	Path string `json:"path"`
}

// Facts describes the machine called name, whose own network namespace is the
// first of spaces; the others are those of its pods. A fact that could not be
// read is left out and its reason returned beside.
func (r Reader) Facts(name string, spaces ...Named) (result.Facts, []error) {
	f := r.static()
	f.Machine = name
	if len(spaces) == 0 {
		spaces = []Named{{Name: name}}
	}
	var problems []error
	note := func(what string, err error) {
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", what, err))
		}
	}
	own := spaces[0].Path
	note("read sysctls", r.inNetns(own, func() error { f.Sysctls = r.readSysctls(); return nil }))
	r.addGlobalSysctls(f.Sysctls)
	f.Congestion = f.Sysctls["net.ipv4.tcp_congestion_control"]
	if r.Root != "" {
		return f, problems // a fixture has no kernel to ask
	}
	for _, space := range spaces {
		note("list devices of "+space.Name, Do(space.Path, func() error {
			devices, err := devices(space.Name)
			f.Devices = append(f.Devices, devices...)
			return err
		}))
	}
	err := Do(own, func() error {
		n, err := r.netfilter()
		f.NetfilterRules, f.WrappedRules, f.Conntrack = n.rules, n.wrapped, n.conntrack
		return err
	})
	f.RulesHidden = err != nil
	if errors.Is(err, unix.EPERM) {
		return f, append(problems, errRulesHidden)
	}
	note("read netfilter", err)
	return f, problems
}

// errRulesHidden is what a process without rights over its network cannot have.
var errRulesHidden = errors.New("nftables rules cannot be counted without CAP_NET_ADMIN")

// inNetns runs fn in a namespace, or right here when the reader is on a fixture.
func (r Reader) inNetns(path string, fn func() error) error {
	if r.Root != "" {
		return fn()
	}
	return Do(path, fn)
}

// static gathers what does not depend on a network namespace. Nothing in it
// changes while a machine runs, so figures like steal time are not here.
func (r Reader) static() result.Facts {
	cpu := r.cpuinfo()
	return result.Facts{
		Kernel:      r.line("proc/sys/kernel/osrelease"),
		Arch:        runtime.GOARCH,
		OS:          r.osRelease("PRETTY_NAME"),
		CPUModel:    cpu.model,
		CPUs:        cpu.count,
		Hypervisor:  r.hypervisor(cpu),
		Emulated:    r.emulated(cpu),
		ClockSource: r.line("sys/devices/system/clocksource/clocksource0/current_clocksource"),
		Governor:    r.line("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
		Memory:      r.memory(),
		BootID:      r.BootID(),
		Versions:    map[string]string{"go": runtime.Version()},
	}
}

// BootID identifies the boot that the machine is in; "" if it cannot be read: a fact that a record may lack,
// while [BootID] is for those who would take one boot for another without it.
func (r Reader) BootID() string { return r.line("proc/sys/kernel/random/boot_id") }

type cpuinfo struct {
	model string
	count int
	guest bool // the CPU says that a hypervisor is below it
}

func (r Reader) cpuinfo() cpuinfo {
	var c cpuinfo
	text, _ := os.ReadFile(r.path("proc/cpuinfo"))
	for _, line := range strings.Split(string(text), "\n") {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(key) {
		case "processor":
			c.count++
		case "model name", "Model": // x86, then boards with ARM
			c.model = value
		case "flags":
			c.guest = c.guest || strings.Contains(" "+value+" ", " hypervisor ")
		}
	}
	return c
}

// hypervisor names what the machine runs on, as far as it tells: by /sys where
// a paravirtual one says so, else by the maker's name in the DMI table, else by
// what the CPU says.
func (r Reader) hypervisor(c cpuinfo) string {
	if kind := r.line("sys/hypervisor/type"); kind != "" {
		return kind
	}
	if !c.guest {
		return ""
	}
	if vendor := r.line("sys/class/dmi/id/sys_vendor"); vendor != "" {
		return vendor
	}
	if kind := cpuid.CPU.HypervisorVendorID; r.Root == "" && kind != cpuid.VendorUnknown {
		return kind.String()
	}
	return "unknown"
}

// memory is MemTotal in bytes; 0 if it cannot be read.
func (r Reader) memory() int64 {
	text, _ := os.ReadFile(r.path("proc/meminfo"))
	for _, line := range strings.Split(string(text), "\n") {
		fields := strings.Fields(line)
		if len(fields) >= 2 && fields[0] == "MemTotal:" {
			kib, _ := strconv.ParseInt(fields[1], 10, 64)
			return kib * 1024
		}
	}
	return 0
}

// Sysctl reads one setting as the calling thread's namespace has it. White
// space inside the value becomes single spaces.
func (r Reader) Sysctl(name string) (string, error) {
	b, err := os.ReadFile(r.path("proc/sys", SysctlFile(name)))
	if err != nil {
		return "", fmt.Errorf("read sysctl %s: %w", name, err)
	}
	return strings.Join(strings.Fields(string(b)), " "), nil
}

// SysctlFile turns a dotted sysctl name into its file below /proc/sys. As with
// the sysctl command, a name with slashes is taken as it is: device names may
// hold dots.
func SysctlFile(name string) string {
	if strings.Contains(name, "/") {
		return name
	}
	return strings.ReplaceAll(name, ".", "/")
}

func (r Reader) readSysctls() map[string]string {
	found := map[string]string{}
	for _, name := range sysctls {
		if value, err := r.Sysctl(name); err == nil {
			found[name] = value
		}
	}
	return found
}

// addGlobalSysctls fills in those that only the machine's first namespace
// shows: they hold for all of them. Where it may not be entered they stay out.
func (r Reader) addGlobalSysctls(found map[string]string) {
	missing := make([]string, 0, len(sysctls))
	for _, name := range sysctls {
		if _, ok := found[name]; !ok && strings.HasPrefix(name, "net.core.") {
			missing = append(missing, name)
		}
	}
	if r.Root != "" || len(missing) == 0 {
		return
	}
	// An agent is in a namespace of a lab, the process that started it is not.
	// The machine's first process may not be for us to look at.
	for _, pid := range []int{1, os.Getppid()} {
		_ = Do(fmt.Sprintf("/proc/%d/ns/net", pid), func() error {
			for _, name := range missing {
				if value, err := r.Sysctl(name); err == nil {
					found[name] = value
				}
			}
			return nil
		})
	}
}
