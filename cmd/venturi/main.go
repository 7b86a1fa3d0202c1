// Command venturi compares network data paths with the host's own network.
package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/venturi-net/venturi/internal/cli"
	"github.com/venturi-net/venturi/internal/guest"
	"github.com/venturi-net/venturi/internal/netcfg"
)

func main() {
	// In a virtual machine that this program started, it is the first process.
	if code, ok := guest.Main(os.Args, os.Stderr); ok {
		os.Exit(code)
	}
	netcfg.NameProcess(filepath.Base(os.Args[0]))
	env := &cli.Env{
		Args:    os.Args[1:],
		Stdin:   os.Stdin,
		Stdout:  os.Stdout,
		Stderr:  os.Stderr,
		Getenv:  os.Getenv,
		Environ: os.Environ,
		Exit:    os.Exit,
	}
	os.Exit(cli.RunAs(context.Background(), os.Args[0], env))
}
