package compare

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/result"
)

// fastPathWarnings warns of fast paths that carry nothing, or nothing by some device,
// and tells why. That a daemon has ended is told otherwise.
func fastPathWarnings(l *lab.Lab) []result.Warning {
	var out []result.Warning
	for _, arm := range l.Arms {
		warn := func(code, what string, why []string) {
			if len(why) > 0 {
				out = append(out, result.Warning{Code: code, Arm: arm.Name,
					Text: what + " when the run ended: " + strings.Join(why, "; ")})
			}
		}
		var off, refused []string
		for i, pins := range arm.Pins {
			on := "on " + l.Machines[i].Name + " "
			state, err := fastpath.ReadState(fastpath.StateFile(pins))
			switch {
			case errors.Is(err, fs.ErrNotExist):
				continue
			case err != nil:
				off = append(off, on+err.Error())
				continue
			case state.Off != "":
				off = append(off, on+state.Off)
			}
			for _, r := range state.Refused {
				refused = append(refused, fmt.Sprintf("%sby %s: %s", on, r.Device, r.Reason))
			}
		}
		warn("fast-path-off", "its fast path carried nothing", off)
		warn("fast-path-refused", "its fast path did not carry all", refused)
	}
	return out
}
