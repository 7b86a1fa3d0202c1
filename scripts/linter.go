//go:build ignore

// Command linter runs the analyzers of go vet and of staticcheck at once: what both must know of
// dependencies, those of a Kubernetes client among them, is read and type-checked once. Each finds
// what it finds alone.
package main

import (
	"os"

	"golang.org/x/tools/go/analysis/suite/vet"
	"honnef.co/go/tools/lintcmd"
	"honnef.co/go/tools/simple"
	"honnef.co/go/tools/staticcheck"
	"honnef.co/go/tools/stylecheck"
	"honnef.co/go/tools/unused"
)

func main() {
	linter := lintcmd.NewCommand("linter")
	linter.ParseFlags(os.Args[1:])
	linter.AddBareAnalyzers(vet.Suite...)
	linter.AddAnalyzers(staticcheck.Analyzers...)
	linter.AddAnalyzers(simple.Analyzers...)
	linter.AddAnalyzers(stylecheck.Analyzers...)
	linter.AddAnalyzers(unused.Analyzer)
	linter.Run()
}
