package cli

import (
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/venturi-net/venturi/internal/display"
	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/knob/table"
	"github.com/venturi-net/venturi/internal/verr"
)

func knobList(out, say io.Writer) *cobra.Command {
	var (
		t                target
		section          string
		asJSON, markdown bool
	)
	cmd := &cobra.Command{
		Use:   "ls [NAME]",
		Short: "List the knobs, or describe one",
		Long: `List the knobs with their targets, present values, and what they may help. With a NAME,
describe one: its values, risk, prerequisites, evidence with its source, and how it is
undone. The grades of evidence:

  A  repeated runs with their spread
  B  a number, by a weak method
  C  a recommendation without a number
  D  sources contradict each other`,
		Example: `  venturi knob ls
  venturi knob ls --section device --dev eth0
  venturi knob ls net.backlog`,
		Args: atMost(1),
		RunE: func(_ *cobra.Command, args []string) error {
			to, err := t.read()
			if err != nil {
				return err
			}
			list, err := selectKnobs(args, section, to)
			switch {
			case err != nil:
				return err
			case markdown:
				return display.MarkdownKnobs(out)
			case asJSON:
				err = display.PrintKnobsJSON(out, list)
			case len(args) == 1:
				return display.PrintKnob(out, list[0]) // which says so itself
			default:
				err = display.PrintKnobs(out, list)
			}
			display.TellDenied(say, list)
			return err
		},
	}
	t.flags(cmd.Flags())
	var names []string
	for _, s := range table.Sections() {
		names = append(names, s.Name)
	}
	cmd.Flags().StringVar(&section, "section", "", "only one section: "+strings.Join(names, ", "))
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the list as JSON, with all details")
	cmd.Flags().BoolVar(&markdown, "md", false, "print the whole table as Markdown")
	cmd.MarkFlagsMutuallyExclusive("json", "md")
	return cmd
}

// selectKnobs are the knobs to show: one, those of a section, or all.
func selectKnobs(names []string, section string, t knob.Target) ([]display.KnobReading, error) {
	list := []display.KnobReading{}
	for _, s := range table.Sections() {
		for _, e := range s.Entries {
			if section != "" && s.Name != section || len(names) == 1 && e.Name != names[0] {
				continue
			}
			list = append(list, readKnob(e, s.Name, t))
		}
	}
	if len(list) == 0 && len(names) == 1 {
		_, err := findKnob(names[0])
		return nil, err
	}
	if len(list) == 0 {
		return nil, verr.New(verr.Usage, "cannot list section "+section, "there is none of that name, or it is empty", "list them with: venturi knob ls --help")
	}
	return list, nil
}
