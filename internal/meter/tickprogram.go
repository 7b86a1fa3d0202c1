package meter

import (
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// findRunqueues asks the running kernel for the address of each core's run
// queue. Few kernels list the addresses of variables; but from the task that
// asks, by way of its group, all run queues can be reached.
func findRunqueues(l *tickLayout, cores []int) ([]uint64, error) {
	const each = 16 // the address, and the number that the queue says it has
	buf := make([]byte, each*len(cores))
	out, err := newOutput("venturi_queues", len(buf))
	if err != nil {
		return nil, err
	}
	defer out.Close()
	prog, err := newReader("venturi_queues", l.wayProgram(cores, out.FD()))
	if err != nil {
		return nil, err
	}
	defer prog.Close()
	if ret, err := prog.Run(&ebpf.RunOptions{}); err != nil || ret != 0 {
		return nil, fmt.Errorf("find the cores' run queues: program returned %d, %w", ret, err)
	}
	if err := out.Lookup(uint32(0), buf); err != nil {
		return nil, fmt.Errorf("find the cores' run queues: %w", err)
	}
	addresses := make([]uint64, len(cores))
	for i, core := range cores {
		if n := word(buf, each*i+8) & 0xffffffff; n != int64(core) {
			return nil, fmt.Errorf("%w: the run queue of core %d says it is that of %d", errOtherKernel, core, n)
		}
		addresses[i] = uint64(word(buf, each*i))
	}
	return addresses, nil
}

// wayProgram walks from the calling task to the run queue of each core.
func (l *tickLayout) wayProgram(cores []int, out int) asm.Instructions {
	var p asm.Instructions
	// follow reads the pointer at R0+offset into R0, by way of the stack.
	follow := func(offset int) {
		p = append(p,
			asm.Mov.Reg(asm.R3, asm.R0), asm.Add.Imm(asm.R3, int32(offset)),
			asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, -8),
			asm.Mov.Imm(asm.R2, 8),
			asm.FnProbeReadKernel.Call(),
			asm.JNE.Imm(asm.R0, 0, "failed"),
			asm.LoadMem(asm.R0, asm.RFP, -8, asm.DWord))
	}
	p = append(p, asm.FnGetCurrentTask.Call())
	follow(l.taskGroup)
	follow(l.groupQueues)
	p = append(p, asm.Mov.Reg(asm.R6, asm.R0))
	for i, core := range cores {
		p = append(p, asm.Mov.Reg(asm.R0, asm.R6))
		follow(8 * core)
		follow(l.queueRunqueue)
		p = append(p,
			asm.LoadMapValue(asm.R7, out, uint32(16*i)),
			asm.StoreMem(asm.R7, 0, asm.R0, asm.DWord))
		follow(l.runqueueCPU)
		p = append(p, asm.StoreMem(asm.R7, 8, asm.R0, asm.DWord))
	}
	return ending(p)
}

// ending closes a program that returns 0, or 1 from its label "failed".
func ending(p asm.Instructions) asm.Instructions {
	return append(p,
		asm.Mov.Imm(asm.R0, 0), asm.Return(),
		asm.Mov.Imm(asm.R0, 1).WithSymbol("failed"), asm.Return())
}

// Flags of the kernel's bpf.h that the library has no names for.
const (
	bpfMmapable  = 1 << 10 // BPF_F_MMAPABLE: a map that is read without a system call
	bpfSleepable = 1 << 4  // BPF_F_SLEEPABLE: what programs of type syscall must be
)

// newOutput makes a map with one value for what a program leaves.
func newOutput(name string, size int) (*ebpf.Map, error) {
	m, err := ebpf.NewMap(&ebpf.MapSpec{
		Name: name, Type: ebpf.Array, KeySize: 4, ValueSize: uint32(size), MaxEntries: 1, Flags: bpfMmapable,
	})
	if err != nil {
		return nil, fmt.Errorf("make map %s: %w", name, err)
	}
	return m, nil
}

// newReader loads a program that hangs on nothing and runs when asked.
func newReader(name string, p asm.Instructions) (*ebpf.Program, error) {
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: name, Type: ebpf.Syscall, Flags: bpfSleepable, License: "GPL", Instructions: p,
	})
	if err != nil {
		return nil, fmt.Errorf("load program %s: %w", name, err)
	}
	return prog, nil
}

// stride is how many bytes a core takes in the map: its tick_cpu_sched, the
// time, its tick_cpu_sched again, its kernel_cpustat.
func (l *tickLayout) stride() int { return 2*round8(l.schedSize) + 8 + round8(l.statSize) }

func round8(n int) int { return (n + 7) &^ 7 }

// program copies the variables of every core into the only value of the map,
// without a loop: some 25 instructions a core.
func (l *tickLayout) program(runqueues []uint64, out int) asm.Instructions {
	var p asm.Instructions
	copyTo := func(at, size int, from uint64) {
		p = append(p,
			asm.LoadMapValue(asm.R1, out, uint32(at)),
			asm.Mov.Imm(asm.R2, int32(size)),
			asm.LoadImm(asm.R3, int64(from), asm.DWord),
			asm.FnProbeReadKernel.Call(),
			asm.JNE.Imm(asm.R0, 0, "failed"))
	}
	for i, queue := range runqueues {
		sched := queue + uint64(l.schedFromRunqueue)
		at := i * l.stride()
		copyTo(at, l.schedSize, sched)
		at += round8(l.schedSize)
		p = append(p,
			asm.FnKtimeGetNs.Call(),
			asm.LoadMapValue(asm.R1, out, uint32(at)),
			asm.StoreMem(asm.R1, 0, asm.R0, asm.DWord))
		at += 8
		copyTo(at, l.schedSize, sched)
		at += round8(l.schedSize)
		copyTo(at, l.statSize, queue+uint64(l.statFromRunqueue))
	}
	return ending(p)
}
