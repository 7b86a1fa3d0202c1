package bpf_test

import (
	"fmt"
	"testing"

	"github.com/cilium/ebpf/asm"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
)

// Programs use what an atomic addition returns. One whose result is not used orders nothing on arm64: a core that sees
// the new number of a group might still read the entry that it stands for as it was before.
func TestAdditionsAreOrdered(t *testing.T) {
	found := 0
	for _, kind := range append(kinds, bpf.Routed6) {
		for _, shadow := range []bool{false, true} {
			spec, err := bpf.Spec(kind, shadow)
			check(t, err)
			for name, p := range spec.Programs {
				unordered := 0
				for _, ins := range p.Instructions {
					switch ins.OpCode.AtomicOp() {
					case asm.AddAtomic:
						unordered++
					case asm.FetchAdd:
						found++
					}
				}
				if unordered > 0 {
					t.Errorf("%s has %d additions without a result", fmt.Sprintf("%s of %s, shadow %v,", name, kind, shadow), unordered)
				}
			}
		}
	}
	if found == 0 {
		t.Error("no program adds anything")
	}
}
