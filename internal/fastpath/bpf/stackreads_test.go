package bpf_test

import (
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
)

// unwrittenKnown are programs that read what is not written on ways which the kernel knows not to be taken.
var unwrittenKnown = map[string]string{
	bpf.Routed6 + ", shadow false, to_peer":  "a translation's other key, behind a byte of the stack that is 0 if there is none",
	bpf.Routed6 + ", shadow true, to_peer":   "the same",
	bpf.VXLAN + ", shadow true, from_wire":   "the key, behind the reason for which a packet is slow, which is a constant if it was not parsed",
	bpf.Geneve + ", shadow true, from_wire":  "the same",
	bpf.IPIP + ", shadow true, from_wire":    "the same",
	bpf.Routed + ", shadow true, from_wire":  "the same",
	bpf.Routed6 + ", shadow true, from_wire": "the same",
}

// Programs read of their stack only what they have written there, whichever way they came: kernels before Linux 6.3
// refuse others, and newer ones, under which most tests run, do not. A way that cannot be taken counts as well, because
// kernels before Linux 5.16 do not know constants any more once these were on the stack as 32 bits.
func TestReadsWrittenStack(t *testing.T) {
	t.Parallel()
	eachProgram(t, func(t *testing.T, name string, p *ebpf.ProgramSpec) {
		reason, total := unwrittenKnown[name], 0
		for _, f := range functionsOf(p.Instructions) {
			for _, i := range f.unwritten() {
				if total++; reason == "" {
					t.Errorf("instruction %d, %v, reads what is not written on all ways to it: %v", i, f[i], f[i].Source())
				}
			}
		}
		if reason != "" && total == 0 {
			t.Errorf("it is no exception any more: %s", reason)
		}
	})
}

// The test above finds what is read on one way without having been written.
func TestFindsUnwritten(t *testing.T) {
	t.Parallel()
	f := function{
		asm.StoreMem(asm.RFP, -4, asm.R1, asm.Word),
		asm.JEq.Imm(asm.R1, 0, "read"),
		asm.StoreMem(asm.RFP, -8, asm.R1, asm.Word),
		asm.LoadMem(asm.R0, asm.RFP, -8, asm.DWord),
		asm.LoadMem(asm.R0, asm.RFP, -8, asm.DWord).WithSymbol("read"),
		asm.Return(),
	}
	if found := f.unwritten(); !slices.Equal(found, []int{4}) {
		t.Errorf("found %v", found)
	}
}

// A function is its instructions.
type function asm.Instructions

// functionsOf are a program and those that it calls.
func functionsOf(all asm.Instructions) (functions []function) {
	begin := 0
	for i := range all {
		if i > 0 && all[i].Symbol() != "" {
			functions, begin = append(functions, function(all[begin:i])), i
		}
	}
	return append(functions, function(all[begin:]))
}

// onStack is what is known in front of an instruction. Places on the stack are counted in bytes from its end.
type onStack struct {
	content [stackLimit + 1]bool // by place: whether it was written
	places  [11]int              // by register: one more than the place that it points to; 0: none, or nobody knows
}

// unwritten lists the instructions that read, by the register of the stack's end, what was not written on all ways to
// them. Where nobody knows what is written, that counts as written: from a place on whose address is kept in memory,
// depends on the way, is computed with, or is given to a function that may write there.
func (f function) unwritten() (found []int) {
	before, next := make([]*onStack, len(f)), f.next()
	before[0] = &onStack{}
	before[0].places[asm.RFP] = 1
	merged := 0 // the farthest place whose address depends on the way
	for todo := []int{0}; len(todo) > 0; {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		after := *before[i]
		after.run(f[i])
		for _, n := range next[i] {
			both, farthest := after.merge(before[n])
			if merged = max(merged, farthest); before[n] == nil || *before[n] != both {
				before[n] = &both
				todo = append(todo, n)
			}
		}
	}
	for i, s := range before {
		if s == nil || !f[i].OpCode.Class().IsLoad() || f[i].Src != asm.RFP {
			continue
		}
		farthest := -int(f[i].Offset)
		for place := farthest; place > max(merged, farthest-f[i].OpCode.Size().Sizeof()); place-- {
			if !s.content[place] {
				found = append(found, i)
				break
			}
		}
	}
	return found
}

// next lists for each instruction which ones may follow it.
func (f function) next() [][]int {
	byOffset, bySymbol := map[asm.RawInstructionOffset]int{}, map[string]int{}
	for iter := asm.Instructions(f).Iterate(); iter.Next(); {
		byOffset[iter.Offset] = iter.Index
		bySymbol[iter.Ins.Symbol()] = iter.Index
	}
	next := make([][]int, len(f))
	for iter := asm.Instructions(f).Iterate(); iter.Next(); {
		op, i := iter.Ins.OpCode, iter.Index
		jumps := op.Class().IsJump() && op.JumpOp() != asm.Call && op.JumpOp() != asm.Exit
		if jumps {
			to, named := bySymbol[iter.Ins.Reference()]
			if !named || iter.Ins.Reference() == "" {
				to = byOffset[iter.Offset+1+asm.RawInstructionOffset(iter.Ins.Offset)]
			}
			next[i] = append(next[i], to)
		}
		if !op.Class().IsJump() || (op.JumpOp() != asm.Exit && op.JumpOp() != asm.Ja) {
			next[i] = append(next[i], i+1)
		}
	}
	return next
}

// readers are the kernel's functions that are given places on the stack, and write nothing there.
var readers = []asm.BuiltinFunc{asm.FnMapLookupElem, asm.FnMapUpdateElem, asm.FnMapDeleteElem, asm.FnRingbufOutput, asm.FnSkbStoreBytes, asm.FnCsumDiff}

// lose loses the place that a register points to: others may write there, and beyond.
func (s *onStack) lose(r asm.Register) {
	for place := s.places[r] - 1; place > 0; place-- {
		s.content[place] = true
	}
}

// run does to what is known what an instruction does.
func (s *onStack) run(i asm.Instruction) {
	class, op := i.OpCode.Class(), i.OpCode
	switch {
	case class.IsStore():
		if to := s.places[i.Dst]; to > 0 {
			farthest := to - 1 - int(i.Offset)
			for place := farthest; place > farthest-op.Size().Sizeof(); place-- {
				s.content[place] = true
			}
		}
		if class == asm.StXClass {
			s.lose(i.Src)
		}
	case class.IsLoad():
		s.places[i.Dst] = 0
	case class == asm.ALU64Class && op.ALUOp() == asm.Mov && op.Source() == asm.RegSource:
		s.places[i.Dst] = s.places[i.Src]
	case class == asm.ALU64Class && op.ALUOp() == asm.Add && op.Source() == asm.ImmSource && s.places[i.Dst] > 0:
		s.places[i.Dst] -= int(i.Constant)
	case class.IsALU():
		if op.ALUOp() != asm.Mov {
			s.lose(i.Dst)
		}
		if op.Source() == asm.RegSource {
			s.lose(i.Src)
		}
		s.places[i.Dst] = 0
	case class.IsJump() && op.JumpOp() == asm.Call:
		for r := asm.R0; r <= asm.R5; r++ {
			if !i.IsBuiltinCall() || !slices.Contains(readers, asm.BuiltinFunc(i.Constant)) {
				s.lose(r)
			}
			s.places[r] = 0
		}
	}
}

// merge is what is known on this way and on another one, if there is one, and the farthest place that a register points
// to on one of them only.
func (s *onStack) merge(other *onStack) (both onStack, farthest int) {
	if other == nil {
		return *s, 0
	}
	for place := range both.content {
		both.content[place] = s.content[place] && other.content[place]
	}
	for r := range both.places {
		if s.places[r] == other.places[r] {
			both.places[r] = s.places[r]
		} else {
			farthest = max(farthest, s.places[r]-1, other.places[r]-1)
		}
	}
	return both, farthest
}
