package fastpath_test

import (
	"path/filepath"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/testenv"
)

// A program that is loaded just when a sysctl changes is looked for, too.
func TestNewsBesideSysctl(t *testing.T) {
	fast, n := newFast(t), space(t)
	c := &fastpath.Config{Kind: fastpath.Routed, Pins: t.TempDir(), State: filepath.Join(t.TempDir(), "state")}
	testenv.InNetns(t, n.Path(), func() error {
		due, err := fastpath.NewsBesideSysctl(c, n, fast, func() {
			p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL",
				Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()}})
			must(t, err)
			t.Cleanup(func() { p.Close() })
		})
		if err == nil && due == 0 {
			t.Error("nobody looks for the program")
		}
		return err
	})
}
