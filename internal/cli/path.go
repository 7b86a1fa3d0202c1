package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/venturi-net/venturi/internal/path"
	"github.com/venturi-net/venturi/internal/verr"
)

func newPath(env *Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "path",
		Short: "List the data paths that can be built, and what each needs",
		Long: `A path is what lies between two ends of traffic. It is given by its name, and by
options behind a colon where there are any: vxlan:vni=42,tunnels=5. The same path
can be given several times, with other options.`,
		Example: `  venturi path ls
  venturi path show ovs-vxlan`,
	}
	cmd.AddCommand(pathList(env.Stdout), pathShow(env.Stdout))
	return cmd
}

// pathInfo is what there is to know of a driver, for people and for machines.
type pathInfo struct {
	Name     string       `json:"name"`
	Summary  string       `json:"summary"`
	Like     string       `json:"like"`
	Overhead int          `json:"overhead"` // bytes a packet, with the default options
	Needs    []string     `json:"needs"`
	Options  []pathOption `json:"options"`
}

type pathOption struct {
	Name    string `json:"name"`
	Value   string `json:"value"`
	Default string `json:"default"`
	Help    string `json:"help"`
}

func describe(d *path.Driver) pathInfo {
	options := path.Values{}
	info := pathInfo{Name: d.Name, Summary: d.Summary, Like: d.Like, Needs: []string{}, Options: []pathOption{}}
	for _, o := range d.Options {
		options[o.Name] = o.Default
		info.Options = append(info.Options, pathOption{o.Name, o.Value, o.Default, o.Help})
	}
	info.Overhead = path.Arm{Driver: d, Options: options}.Overhead()
	if d.Needs != nil {
		for _, n := range d.Needs(options) {
			info.Needs = append(info.Needs, n.String())
		}
	}
	return info
}

func pathList(out io.Writer) *cobra.Command {
	var asJSON, markdown bool
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List the paths",
		Long: `List the paths: what each is, which system wires it so, how many bytes it adds to
each packet on the wire, and whether it can be built here with its default
options (as root; somebody else sees what can be told without).`,
		Example: "  venturi path ls\n  venturi path ls --json",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			all := []pathInfo{}
			for _, d := range path.Table {
				all = append(all, describe(d))
			}
			switch {
			case asJSON:
				return printJSON(out, all)
			case markdown:
				return markdownPaths(out, all)
			}
			w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "PATH\tOVERHEAD\tHERE\tWHAT IT IS, AND WHO WIRES IT SO")
			for i, p := range all {
				fmt.Fprintf(w, "%s\t%d B\t%s\t%s (%s)\n", p.Name, p.Overhead, here(path.Table[i]), p.Summary, p.Like)
			}
			return w.Flush()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the list as JSON, with options and needs")
	cmd.Flags().BoolVar(&markdown, "md", false, "print the list as Markdown, with options and needs")
	cmd.MarkFlagsMutuallyExclusive("json", "md")
	return cmd
}

// here tells whether a path can be built on this machine: with its defaults, or
// else with which option.
func here(d *path.Driver) string {
	if lacking(d.Name) == nil {
		return "yes"
	}
	for _, o := range d.Options {
		for _, value := range strings.Split(o.Value, "|") {
			said := o.Name + "=" + value
			if strings.Contains(o.Value, "|") && value != "auto" && lacking(d.Name+":"+said) == nil {
				return "with " + said
			}
		}
	}
	return "no"
}

// lacking is what this machine lacks for a path, as an error for a user; nil:
// nothing, or that cannot be told.
func lacking(spec string) error {
	arms, err := path.Arms([]string{spec}, nil)
	if err == nil {
		err = arms[0].Check()
	}
	if missing := new(verr.Error); errors.As(err, &missing) && missing.Code == verr.Missing {
		return missing
	}
	return nil
}

func pathShow(out io.Writer) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "show PATH",
		Short:   "Show one path with its options and needs",
		Long:    "Show what a path is, its options with their defaults, and what it needs.",
		Example: "  venturi path show vxlan",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			d, err := path.Lookup(args[0])
			if err != nil {
				return err
			}
			p := describe(d)
			if asJSON {
				return printJSON(out, p)
			}
			w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
			fmt.Fprintf(w, "path\t%s: %s\nlike\t%s\noverhead\t%d B a packet\nneeds\t%s\n",
				p.Name, p.Summary, p.Like, p.Overhead, orNothing(p.Needs))
			for i, o := range p.Options {
				head := ""
				if i == 0 {
					head = "options"
				}
				fmt.Fprintf(w, "%s\t%s=%s\t%s%s\n", head, o.Name, o.Value, o.Help, defaultText(o))
			}
			if err := w.Flush(); err != nil {
				return err
			}
			if err := lacking(d.Name); err != nil {
				fmt.Fprintln(out)
				verr.Print(out, err)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	return cmd
}

func orNothing(list []string) string {
	if len(list) == 0 {
		return "nothing but what a lab needs"
	}
	return strings.Join(list, ", ")
}

func defaultText(o pathOption) string {
	if o.Default == "" {
		return ""
	}
	return fmt.Sprintf(" (default %s)", o.Default)
}

// markdownPaths prints docs/paths.md.
func markdownPaths(out io.Writer, all []pathInfo) error {
	var b strings.Builder
	b.WriteString("# Paths\n\nWritten by `venturi path ls --md`; a test keeps it so.\n\n" +
		"A path is given by its name, and by options behind a colon: `vxlan:vni=42,tunnels=5`. The same path can be given\n" +
		"several times with other options. Overhead is what a path adds to each packet on the wire, with its default options.\n\n" +
		"| path | what it is | who wires it so | overhead | needs |\n|---|---|---|---|---|\n")
	for _, p := range all {
		fmt.Fprintf(&b, "| [`%s`](#%[1]s) | %s | %s | %d B | %s |\n", p.Name, p.Summary, p.Like, p.Overhead, orNothing(p.Needs))
	}
	for _, p := range all {
		fmt.Fprintf(&b, "\n## %s\n\n", p.Name)
		if len(p.Options) == 0 {
			b.WriteString("No options.\n")
			continue
		}
		b.WriteString("| option | default | what it does |\n|---|---|---|\n")
		for _, o := range p.Options {
			fmt.Fprintf(&b, "| `%s=%s` | %s | %s |\n", o.Name, strings.ReplaceAll(o.Value, "|", "\\|"), o.Default, o.Help)
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}
