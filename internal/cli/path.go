package cli

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/venturi-net/venturi/internal/display"
	"github.com/venturi-net/venturi/internal/path"
)

func newPath(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "path",
		Short: "List the data paths that can be built, and what each needs",
		Long: `A path is what lies between two endpoints of traffic. Options follow its name after a colon:
vxlan:vni=42,tunnels=5. The same path can be given several times, with different options.`,
		Example: `  venturi path ls
  venturi path show ovs-vxlan
  venturi path show ovs-vxlan:datapath=netdev`,
	}
	cmd.AddCommand(pathList(env.Stdout), pathShow(env.Stdout))
	return cmd
}

func pathList(out io.Writer) *cobra.Command {
	var asJSON, markdown bool
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the paths",
		Long: `List the paths: what each is, which system uses it, how many bytes it adds to each
packet on the wire, which kernel features and Debian packages it needs, and whether it
can be built here, with its default options or with others. "?" means unknown: most
kernel features can be checked only by root.`,
		Example: "  venturi path ls\n  venturi path ls --json",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			all := []display.PathInfo{}
			for _, d := range path.Table {
				all = append(all, display.DescribePath(d, nil))
			}
			switch {
			case asJSON:
				return display.PrintJSON(out, all)
			case markdown:
				return display.MarkdownPaths(out, all)
			}
			return display.PrintPaths(out, all)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the list as JSON, with options and needs")
	cmd.Flags().BoolVar(&markdown, "md", false, "print the list as Markdown, with options and needs")
	cmd.MarkFlagsMutuallyExclusive("json", "md")
	return cmd
}

func pathShow(out io.Writer) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show PATH[:OPTIONS]",
		Short: "Show one path with its options and needs",
		Long: `Show what a path is, its options with their defaults, what it needs, and what this
machine lacks. With options after its name, it shows overhead and needs with those
options.`,
		Example: `  venturi path show vxlan
  venturi path show ovs-vxlan:datapath=netdev,tunnels=5`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			p, err := display.ReadPath(args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return display.PrintJSON(out, p)
			}
			return display.PrintPath(out, p)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the result as JSON")
	return cmd
}
