package bpf_test

import (
	"os"
	"testing"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/guest"
	"github.com/venturi-net/venturi/internal/testenv"
)

func TestMain(m *testing.M) {
	if code, ok := guest.Main(os.Args, os.Stderr); ok {
		os.Exit(code)
	}
	bpf.MapArrays() // for the pool
	testenv.Main(closePool{m}, nil)
}

// closePool runs the tests of m, and closes what they have kept.
type closePool struct{ m *testing.M }

func (c closePool) Run() int {
	defer pool.close()
	return c.m.Run()
}
