package meter

import (
	"errors"
	"fmt"
	"sync"

	"github.com/cilium/ebpf/btf"
)

// tickLayout is what this kernel's type information says about the two
// variables: where they are, and where their fields are. Offsets and sizes are
// bytes.
type tickLayout struct {
	// From a core's run queue, which a program can find, to its variables:
	// all three are in the core's copy of one section.
	schedFromRunqueue, statFromRunqueue int64

	// The way from a task to the run queues: the task's group, the group's
	// queue of each core, that core's run queue, and its number.
	taskGroup, groupQueues, queueRunqueue, runqueueCPU int

	schedSize, statSize  int
	entry, sleep, iowait int // offsets of fields, bytes
	seq                  int // -1: this kernel has none
	flags, flagsSize     int
	idleBit              uint64 // of flags
}

// flagIdleActive is the kernel's TS_FLAG_IDLE_ACTIVE: "in idle, and not in an
// interrupt". Kernels before 6.9 have a bit field that names itself instead.
const flagIdleActive = 1 << 2

var errOtherKernel = errors.New("this kernel keeps its idle times in another way")

// thisKernel is the layout of the running kernel. To find it takes tens of
// milliseconds, and each series asks.
var thisKernel = sync.OnceValues(findTickLayout)

func findTickLayout() (tickLayout, error) {
	var l tickLayout
	spec, err := btf.LoadKernelSpec()
	if err != nil {
		return l, fmt.Errorf("read the kernel's type information: %w", err)
	}
	var section *btf.Datasec
	if err := spec.TypeByName(".data..percpu", &section); err != nil {
		return l, fmt.Errorf("find the kernel's variables: %w", err)
	}
	queueAt, queue := findVariable(section, "runqueues")
	schedAt, sched := findVariable(section, "tick_cpu_sched")
	statAt, stat := findVariable(section, "kernel_cpustat")
	if queue == nil || sched == nil || stat == nil {
		return l, errOtherKernel
	}
	l.schedFromRunqueue, l.statFromRunqueue = schedAt-queueAt, statAt-queueAt
	l.schedSize, l.statSize = int(sched.Size), int(stat.Size)
	if l.statSize < 8*statWords {
		return l, fmt.Errorf("%w: kernel_cpustat has %d bytes", errOtherKernel, l.statSize)
	}
	return l, errors.Join(l.findWay(spec), l.findFields(sched))
}

// findWay finds the fields between a task and the run queues.
func (l *tickLayout) findWay(spec *btf.Spec) error {
	for _, f := range []struct {
		in, name string
		at       *int
	}{
		{"task_struct", "sched_task_group", &l.taskGroup},
		{"task_group", "cfs_rq", &l.groupQueues},
		{"cfs_rq", "rq", &l.queueRunqueue},
		{"rq", "cpu", &l.runqueueCPU},
	} {
		var s *btf.Struct
		if err := spec.TypeByName(f.in, &s); err != nil {
			return fmt.Errorf("find the kernel's %s: %w", f.in, err)
		}
		m, ok := membersOf(s)[f.name]
		if !ok {
			return fmt.Errorf("%w: %s has no %s", errOtherKernel, f.in, f.name)
		}
		*f.at = int(m.Offset.Bytes())
	}
	return nil
}

func membersOf(s *btf.Struct) map[string]btf.Member {
	members := map[string]btf.Member{}
	for _, m := range s.Members {
		members[m.Name] = m
	}
	return members
}

// findVariable gives a variable's place in the section and its type, nil when
// it is not there.
func findVariable(section *btf.Datasec, name string) (offset int64, s *btf.Struct) {
	for _, info := range section.Vars {
		if v, ok := info.Type.(*btf.Var); ok && v.Name == name {
			s, _ := btf.UnderlyingType(v.Type).(*btf.Struct)
			return int64(info.Offset), s
		}
	}
	return 0, nil
}

func (l *tickLayout) findFields(sched *btf.Struct) error {
	fields := membersOf(sched)
	for name, at := range map[string]*int{"idle_entrytime": &l.entry, "idle_sleeptime": &l.sleep, "iowait_sleeptime": &l.iowait} {
		m, ok := fields[name]
		if !ok {
			return fmt.Errorf("%w: no %s", errOtherKernel, name)
		}
		*at = int(m.Offset.Bytes())
	}
	l.seq = -1
	if m, ok := fields["idle_sleeptime_seq"]; ok {
		l.seq = int(m.Offset.Bytes())
	}
	if m, ok := fields["flags"]; ok {
		l.flags, l.flagsSize, l.idleBit = int(m.Offset.Bytes()), 8, flagIdleActive
		return nil
	}
	m, ok := fields["idle_active"]
	if !ok || m.BitfieldSize != 1 {
		return fmt.Errorf("%w: no idle_active", errOtherKernel)
	}
	// Little-endian machines count bits from the least significant one; the
	// check against /proc/stat finds the others.
	l.flags, l.flagsSize, l.idleBit = int(m.Offset/8), 1, 1<<(m.Offset%8)
	return nil
}
