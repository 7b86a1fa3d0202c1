package display

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/sanitize"
)

func PrintLab(out io.Writer, l *lab.Lab) error {
	where := ""
	if l.Guest != nil {
		where = " in a virtual machine, under Linux " + l.Guest.Kernel
	}
	sanitize.Fprintf(out, "Lab %s is up%s, until `%s`. Wire: %s.", l.Name, where, command("down", l.Name), l.Wire)
	if l.Services > 0 {
		sanitize.Fprintf(out, " Packet filter: %d Services.", l.Services)
	}
	if l.Cores != nil {
		sanitize.Fprintf(out, " Cores: %s.", l.Cores)
	}
	sanitize.Fprintf(out, "\n\n")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	sanitize.Fprintf(w, "MACHINE\tADDRESS\tNAMESPACE\tAGENT\n")
	for _, m := range l.Machines {
		agent := "-"
		if m.AgentPid > 0 {
			agent = fmt.Sprint(m.AgentPid)
		}
		sanitize.Fprintf(w, "%s\t%s\t%s\t%s\n", m.Name, m.Addr, filepath.Base(m.Namespace), agent)
	}
	sanitize.Fprintf(w, "\nPATH\tFROM\tTO\tMTU\tOVERHEAD\n")
	for _, a := range l.Arms {
		for n, from := range a.Ends[0] {
			name := a.Name
			if n > 0 {
				name = fmt.Sprintf("%s.p%d", a.Name, n+1)
			}
			sanitize.Fprintf(w, "%s\t%s\t%s\t%d B\t%d B\n", name, from.Addr, a.Ends[1][n].Addr, from.MTU, a.Overhead)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(l.Unconfined) > 0 {
		sanitize.Fprintf(out, "\nNot confined to its machine's cores:\n")
	}
	for _, what := range l.Unconfined {
		sanitize.Fprintf(out, "  %s\n", what)
	}
	_, err := sanitize.Fprintf(out, "\nLook inside: %s %s -- ip route\n", command("exec", l.Name), sanitize.Shell(enterNamespace(l)))
	return err
}

// enterNamespace is the namespace of a lab to enter first: where the last path begins
// that begins in a namespace of the lab's.
func enterNamespace(l *lab.Lab) string {
	place := l.Machines[0].Name
	for _, a := range l.Arms {
		for _, space := range l.Machines[0].Namespaces() {
			if space.Path == a.Client().Namespace {
				place = space.Name
			}
		}
	}
	return place
}

// command is what a user types for a lab of that name.
func command(verb, name string) string {
	if name == lab.DefaultName {
		return "venturi lab " + verb
	}
	return "venturi lab " + verb + " --name " + sanitize.Shell(name)
}

func PrintLabs(out io.Writer, list []lab.Info) error {
	if len(list) == 0 {
		_, err := sanitize.Fprintf(out, "no lab is up\n")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	sanitize.Fprintf(w, "LAB\tSTATUS\tSINCE\tOWNER\tKERNEL\tPATHS\n")
	for _, i := range list {
		since, owner, kernel, paths := "?", "-", "-", "?"
		if !i.Since.IsZero() {
			since = i.Since.Format(time.DateTime)
		}
		if i.Status == lab.StatusRunning && i.Owner != 0 {
			owner = fmt.Sprint(i.Owner)
		}
		switch {
		case i.Lab != nil:
			paths = strings.Join(armNames(i.Lab), " ")
		case i.Status == lab.StatusRunning && i.Owner != 0:
			paths = "(being raised)"
		}
		if i.Lab != nil && i.Lab.Guest != nil {
			kernel = i.Lab.Guest.Kernel
		}
		sanitize.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", i.Name, i.Status, since, owner, kernel, paths)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if !slices.ContainsFunc(list, func(i lab.Info) bool { return i.Partial }) {
		return nil
	}
	_, err := sanitize.Fprintf(out, "\nThis process is in its own PID namespace, as in a container: it cannot see processes outside.\n"+
		"A lab that is not running here may be in use there. Check from the host itself before you remove it.\n")
	return err
}

func armNames(l *lab.Lab) []string {
	var names []string
	for _, a := range l.Arms {
		names = append(names, a.Name)
	}
	return names
}
