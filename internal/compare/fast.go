package compare

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/venturi-net/venturi/internal/accel"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/result"
)

// fastPathsOff warns of the fast paths that carry nothing, and tells why. That a
// daemon has ended is told otherwise.
func fastPathsOff(l *lab.Lab) []result.Warning {
	var out []result.Warning
	for _, arm := range l.Arms {
		var why []string
		for i, pins := range arm.Pins {
			state, err := accel.ReadState(accel.StateFile(pins))
			switch {
			case errors.Is(err, fs.ErrNotExist):
			case err != nil:
				why = append(why, err.Error())
			case state.Off != "":
				why = append(why, fmt.Sprintf("on %s %s", l.Machines[i].Name, state.Off))
			}
		}
		if len(why) > 0 {
			out = append(out, result.Warning{Code: "fast-path-off", Arm: arm.Name,
				Text: "its fast path carried nothing when the run ended: " + strings.Join(why, "; ")})
		}
	}
	return out
}
