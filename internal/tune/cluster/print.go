package cluster

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/venturi-net/venturi/internal/fleet"
	"github.com/venturi-net/venturi/internal/sanitize"
)

// Print writes what a tuning would change.
func (s *Tuning) Print(w io.Writer) error {
	var b bytes.Buffer
	if s.Plan != nil {
		s.Plan.print(&b)
	}
	printNodes(&b, s.Replies)
	b.WriteString("\nNothing was changed: --apply makes these changes, all or none.\n")
	_, err := b.WriteTo(w)
	return err
}

func (p *Plan) print(b *bytes.Buffer) {
	b.WriteString("the cluster:\n")
	for _, w := range p.Planned {
		sanitize.Fprintf(b, "  %s: %s -> %s  (%s)\n      %s\n", w.Assignment.Knob.Name, w.Now.Value, w.Assignment.Value, strings.TrimPrefix(w.Assignment.Target.File, "/"), w.Assignment.Step.Reason)
		if note := w.Assignment.Step.Note; note != "" {
			sanitize.Fprintf(b, "      %s\n", note)
		}
	}
	for _, s := range p.Skipped {
		sanitize.Fprintf(b, "  left out: %s: %s\n", s.Step.Name, s.Reason)
	}
	for _, u := range p.Unread {
		sanitize.Fprintf(b, "  not read: %s: %s\n", u.Object, u.Reason)
	}
	for _, c := range p.Changes {
		sanitize.Fprintf(b, "\nwould be written to %s%s:\n", c.Object, ownersOf(c.Fields))
		b.WriteString(sanitize.Lines(c.Diff))
	}
	for _, c := range p.ByHand {
		sanitize.Fprintf(b, "\nleft to you, because %s: %s\n", c.Why, c.Object)
		b.WriteString(sanitize.Lines(c.Diff))
		sanitize.Fprintf(b, "  %s\n", c.Command)
	}
	printRestarts(b, restartsOf(p.Changes))
	if len(p.Changes)+len(p.ByHand) == 0 {
		b.WriteString("  nothing would be changed\n")
	}
}

// ownersOf says which field managers have the fields now.
func ownersOf(fields []FieldChange) string {
	var names []string
	seen := map[string]bool{}
	for _, f := range fields {
		if f.Owner != "" && !seen[f.Owner] {
			seen[f.Owner] = true
			names = append(names, f.Owner)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf(" (fields that %s manages, and may write again: put the values there, too)", strings.Join(names, ", "))
}

func printRestarts(b *bytes.Buffer, commands []string) {
	if len(commands) == 0 {
		return
	}
	b.WriteString("\nin effect once these pods have restarted, which is left to you:\n")
	for _, c := range commands {
		sanitize.Fprintf(b, "  %s\n", c)
	}
}

// printNodes writes what nodes say, once for all that say the same.
func printNodes(b *bytes.Buffer, replies []fleet.Reply) {
	var texts []string
	names := map[string][]string{}
	for _, r := range replies {
		text := string(r.Stdout)
		if names[text] == nil {
			texts = append(texts, text)
		}
		names[text] = append(names[text], r.Machine.Name)
	}
	for _, text := range texts {
		noun := "node"
		if len(names[text]) > 1 {
			noun = "nodes"
		}
		sanitize.Fprintf(b, "\n%s %s:\n", noun, strings.Join(names[text], ", "))
		for line := range strings.Lines(text) {
			if !strings.HasPrefix(line, "Nothing was changed:") {
				sanitize.Fprintf(b, "  %s\n", strings.TrimRight(line, "\n"))
			}
		}
	}
}

// Print writes what was changed. texts are what each node has changed, in words.
func (r *Result) Print(w io.Writer) error {
	var b bytes.Buffer
	for _, c := range r.Changes {
		for _, f := range c.Fields {
			sanitize.Fprintf(&b, "%s: %s: %s -> %s\n", c.Object, f.Path, asText(f.Old), asText(f.New))
		}
	}
	printNodes(&b, r.Replies)
	printRestarts(&b, r.Restarts)
	if r.Txn == 0 {
		b.WriteString("nothing had to be changed\n")
	} else {
		b.WriteString("\n")
		if r.Lease != nil {
			sanitize.Fprintf(&b, "on trial for %s, until %s; keep it with: kubectl venturi confirm %d\n", r.Lease.Length, r.Lease.Until.Local().Format(time.TimeOnly), r.Txn)
		}
		sanitize.Fprintf(&b, "undo with: kubectl venturi undo %d\n", r.Txn)
	}
	_, err := b.WriteTo(w)
	return err
}

// PrintUndone writes what became of transactions.
func PrintUndone(w io.Writer, results []UndoResult) error {
	var b bytes.Buffer
	for _, r := range results {
		for _, o := range r.Objects {
			sanitize.Fprintf(&b, "%-10s %s\n", o.State, strings.TrimSuffix(fmt.Sprintf("%s: %s: %s", o.Object, o.Field, o.Reason), ": "))
		}
		for _, n := range r.Nodes {
			text := n.Text
			if n.Error != "" {
				text += "not undone: " + n.Error + "\n"
			}
			for line := range strings.Lines(text) {
				sanitize.Fprintf(&b, "node %s: %s\n", n.Node, strings.TrimRight(line, "\n"))
			}
		}
	}
	if len(results) == 0 {
		b.WriteString("nothing to undo\n")
	}
	_, err := b.WriteTo(w)
	return err
}
