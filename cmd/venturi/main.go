// Command venturi compares network data paths with the host's own network.
package main

import (
	"context"
	"os"

	"github.com/venturi-net/venturi/internal/cli"
)

func main() {
	env := &cli.Env{
		Args:   os.Args[1:],
		Stdin:  os.Stdin,
		Stdout: os.Stdout,
		Stderr: os.Stderr,
		Getenv: os.Getenv, Environ: os.Environ,
		Exit: os.Exit,
	}
	os.Exit(cli.Run(context.Background(), env))
}
