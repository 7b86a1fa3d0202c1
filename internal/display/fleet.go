package display

import (
	"encoding/json"
	"io"
	"strings"

	"github.com/venturi-net/venturi/internal/fleet"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/verr"
)

// PrintStderr passes on what machines said beside their results.
func PrintStderr(w io.Writer, replies []fleet.Reply) {
	for _, a := range replies {
		for line := range strings.Lines(a.Stderr) {
			sanitize.Fprintf(w, "%s: %s\n", a.Machine.Name, strings.TrimRight(line, "\n"))
		}
	}
}

// fleetReplies are the JSON form of replies.
type fleetReplies struct {
	Version  int            `json:"version"`
	Machines []machineReply `json:"machines"`
}

type machineReply struct {
	Name   string          `json:"name"`
	Exit   int             `json:"exit"`
	Result json.RawMessage `json:"result"`          // what the command prints there with --json; null: nothing
	Error  string          `json:"error,omitempty"` // that it ended with
}

// PrintReplies prints the results of all machines.
func PrintReplies(w io.Writer, replies []fleet.Reply, asJSON bool) error {
	if asJSON {
		all := fleetReplies{Version: JSONVersion}
		for _, a := range replies {
			m := machineReply{Name: a.Machine.Name, Exit: a.Code, Result: json.RawMessage("null")}
			if json.Valid(a.Stdout) {
				m.Result = a.Stdout
			}
			if a.Err != nil {
				m.Exit, m.Error = verr.Code(a.Err), a.Err.Error()
			}
			all.Machines = append(all.Machines, m)
		}
		return PrintJSON(w, all)
	}
	for _, a := range replies {
		if len(a.Stdout) == 0 {
			continue
		}
		PrintMachine(w, a)
		if _, err := sanitize.Fprint(w, sanitize.Safe(sanitize.Lines(string(a.Stdout)))); err != nil {
			return err
		}
	}
	return nil
}

// PrintMachine prints the line above the results of a machine.
func PrintMachine(w io.Writer, a fleet.Reply) {
	sanitize.Fprintf(w, "machine %s (%s):\n", a.Machine.Name, a.Machine.Host)
}
