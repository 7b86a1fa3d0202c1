package cli

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/venturi-net/venturi/internal/sanitize"
)

// version is stamped by the Makefile: -ldflags "-X …/internal/cli.version=v1.2.3".
var version string

// Version names this program in records and in `venturi version`.
func Version() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

func newVersion(env *Env) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this program",
		Long:    "Print the version of this program, of the Go toolchain that built it, and the source\nrevision.",
		Example: "  venturi version",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := sanitize.Fprintf(env.Stdout, "venturi %s\ngo       %s %s/%s\nrevision %s\n",
				Version(), runtime.Version(), runtime.GOOS, runtime.GOARCH, revision())
			return err
		},
	}
}

// revision is the commit that the build saw, marked when the tree differed.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	commit, changed := "unknown", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = " (changed since)"
		}
	}
	return commit + changed
}
