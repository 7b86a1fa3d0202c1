package bpf_test

import (
	"fmt"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
)

// stackLimit is what the kernel allows a program and what it calls, together. Before Linux 6.9 each function counts
// in steps of stackStep; later ones, in smaller steps.
const (
	stackLimit = 512
	stackStep  = 32
)

// Each program and what it calls fit on the stack of every kernel: newer ones allow more than older ones.
func TestStack(t *testing.T) {
	t.Parallel()
	eachProgram(t, func(t *testing.T, _ string, p *ebpf.ProgramSpec) {
		own, called := 0, 0
		for function, used := range stackOf(p.Instructions) {
			steps := max((used+stackStep-1)/stackStep, 1) * stackStep
			if function == p.Name {
				own = steps
			} else {
				called = max(called, steps) // none of them calls another
			}
		}
		if own == 0 || own+called > stackLimit {
			t.Errorf("the program takes %d bytes, and what it calls %d", own, called)
		}
	})
}

// eachProgram runs a test of each program of every kind, those of shadows too, under the name that it has there.
func eachProgram(t *testing.T, test func(t *testing.T, name string, p *ebpf.ProgramSpec)) {
	t.Helper()
	for _, kind := range append(kinds, bpf.Routed6) {
		for _, shadow := range []bool{false, true} {
			spec, err := bpf.Spec(kind, shadow)
			check(t, err)
			for program, p := range spec.Programs {
				name := fmt.Sprintf("%s, shadow %v, %s", kind, shadow, program)
				t.Run(name, func(t *testing.T) { test(t, name, p) })
			}
		}
	}
}

// stackOf gives how much of its stack each function uses, bytes: what it reads and writes there, and
// addresses in it that it computes.
func stackOf(all asm.Instructions) map[string]int {
	used, function := map[string]int{}, ""
	copied := map[asm.Register]bool{} // registers that have been given the address of the stack's end
	for _, i := range all {
		if s := i.Symbol(); s != "" {
			function, copied = s, map[asm.Register]bool{}
			used[function] = 0
		}
		below := 0
		switch class := i.OpCode.Class(); {
		case class.IsStore() && i.Dst == asm.RFP, class.IsLoad() && i.Src == asm.RFP:
			below = -int(i.Offset)
		case class == asm.ALU64Class && i.OpCode.ALUOp() == asm.Mov:
			copied[i.Dst] = i.OpCode.Source() == asm.RegSource && i.Src == asm.RFP
		case class == asm.ALU64Class && i.OpCode.ALUOp() == asm.Add && i.OpCode.Source() == asm.ImmSource && copied[i.Dst]:
			below = -int(i.Constant)
			copied[i.Dst] = false
		}
		used[function] = max(used[function], below)
	}
	return used
}
