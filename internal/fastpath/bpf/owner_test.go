package bpf_test

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
)

// A program is known for one of a fast path by its tables, so each that is attached has to use them.
func TestProgramsAreKnown(t *testing.T) {
	t.Parallel()
	eachProgram(t, func(t *testing.T, name string, p *ebpf.ProgramSpec) {
		used := map[string]bool{}
		for _, i := range p.Instructions {
			used[i.Reference()] = used[i.Reference()] || i.IsLoadFromMap()
		}
		switch shadow := strings.Contains(name, "shadow true"); {
		case p.Name == "clock", p.Name == "from_tunnel" && shadow, strings.HasPrefix(name, bpf.Routed) && strings.HasSuffix(p.Name, "_tunnel"):
			return // attached nowhere
		}
		for table := range kernel.FastPathTables {
			if !used[table] {
				t.Errorf("it does not use %s", table)
			}
		}
	})
}
