// Command venturi-image writes the container image of a venturi binary. It is started
// by `make image`, and is no part of the product.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/venturi-net/venturi/internal/ociimage"
)

func main() {
	if err := run(os.Args[1:], os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "venturi-image:", err)
		os.Exit(1)
	}
}

// run does what main does, and writes its usage to stderr.
func run(args []string, stderr io.Writer) error {
	flags := flag.NewFlagSet("venturi-image", flag.ContinueOnError)
	flags.SetOutput(stderr)
	binary := flags.String("binary", "dist/venturi", "static binary that the image holds")
	name := flags.String("name", "venturi:latest", "name and tag of the image")
	arch := flags.String("arch", "amd64", "architecture of the binary, as GOARCH")
	out := flags.String("o", "dist/venturi-image.tar", "file to write")
	if err := flags.Parse(args); err != nil {
		return err
	}
	data, err := os.ReadFile(*binary)
	if err != nil {
		return err
	}
	file, err := os.Create(*out)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := ociimage.Venturi(*name, *arch, data).Write(file); err != nil {
		return err
	}
	return file.Close()
}
