// Command venturi-bench runs benchmarks of venturi itself. It is no part of the product.
package main

import (
	"context"
	"os"

	"github.com/venturi-net/venturi/internal/bench/benchcli"
	"github.com/venturi-net/venturi/internal/cli"
	"github.com/venturi-net/venturi/internal/guest"
)

func main() {
	// In a virtual machine that this program started, it is the first process.
	if code, ok := guest.Main(os.Args, os.Stderr); ok {
		os.Exit(code)
	}
	env := &cli.Env{
		Args:    os.Args[1:],
		Stdin:   os.Stdin,
		Stdout:  os.Stdout,
		Stderr:  os.Stderr,
		Getenv:  os.Getenv,
		Environ: os.Environ,
		Exit:    os.Exit,
	}
	os.Exit(benchcli.Run(context.Background(), env))
}
