package display

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"text/tabwriter"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/verr"
)

// FastPathStatus is the state and the counters of a fast path on one machine of a lab
// since it was laid.
type FastPathStatus struct {
	Lab         string           `json:"lab"`
	Path        string           `json:"path"`
	Machine     string           `json:"machine"`
	State       *fastpath.State  `json:"state,omitempty"` // absent: its daemon has left none
	Packets     map[string]int64 `json:"packets"`         // by what became of them
	SlowIngress map[string]int64 `json:"into"`            // of those that were slow, on their way into a pod
}

// ReadFastPaths reads them of all labs, but of those in virtual machines, which are
// not to be seen from outside.
func ReadFastPaths(list []lab.Info) ([]FastPathStatus, error) {
	all := []FastPathStatus{}
	for _, info := range list {
		if info.Lab == nil || info.Lab.Guest != nil {
			continue
		}
		for _, arm := range info.Lab.Arms {
			for i, pins := range arm.Pins {
				f, err := readFastPath(pins)
				if err != nil {
					return nil, verr.Wrap(verr.Failed, fmt.Sprintf("cannot read the fast path of %s in lab %s", arm.Name, info.Name), err,
						"take the lab down, and raise it again")
				}
				f.Lab, f.Path, f.Machine = info.Name, arm.Name, info.Lab.Machines[i].Name
				all = append(all, f)
			}
		}
	}
	return all, nil
}

func readFastPath(pins string) (f FastPathStatus, err error) {
	stats, err := fastpath.ReadStats(pins)
	if err != nil {
		return f, err
	}
	all := fastPathCounts(stats)
	f.Packets, f.SlowIngress = all.Packets, all.SlowIngress
	if f.State, err = fastpath.ReadState(fastpath.StateFile(pins)); errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	return f, err
}

func PrintFastPaths(out io.Writer, all []FastPathStatus) error {
	if len(all) == 0 {
		_, err := sanitize.Fprintf(out, "no lab has a fast path that can be seen from here\n")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	sanitize.Fprintf(w, "LAB\tPATH\tMACHINE\tSINCE SETUP\tPACKETS\tOUT OF PODS\tINTO PODS\n")
	for _, f := range all {
		where, blank := sanitize.Sprintf("%s\t%s\t%s", f.Lab, f.Path, f.Machine), sanitize.Safe("\t\t")
		say := func(what string, n any) {
			sanitize.Fprintf(w, "%s\t%s\t%v\n", where, what, n)
			where = blank
		}
		for _, key := range view.ByOutcome(&analysis.FastPath{Packets: f.Packets}) {
			n := sanitize.Sprintf("%d", f.Packets[key])
			if into, told := f.SlowIngress[key]; told {
				n = sanitize.Sprintf("%d\t%d\t%d", f.Packets[key], f.Packets[key]-into, into)
			}
			say(view.Outcome(key), n)
		}
		switch {
		case f.State == nil:
			say("it is gone", "-")
		case f.State.Off != "":
			say("it is off: "+f.State.Off, "-")
		case where != blank:
			say("nothing was seen", 0)
		}
		if f.State != nil {
			for _, r := range f.State.Refused {
				say("left slow by "+r.Device+": "+r.Reason, "-")
			}
		}
	}
	return w.Flush()
}
