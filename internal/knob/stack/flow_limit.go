package stack

import (
	"fmt"
	"strings"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/verr"
)

// flowLimit drops packets of flows that fill a core's backlog, so that others
// get through.
var flowLimit = knob.Entry{
	Facts: knob.Facts{
		Name:     "net.flow_limit",
		Title:    "On which cores a large flow may not fill the backlog at the expense of small ones",
		Values:   "cores, such as 0-3,8; none",
		Scope:    knob.ScopeMachine,
		Helps:    []knob.Benefit{knob.Latency, knob.Drops},
		Risk:     "packets of large flows are dropped once the backlog is half full",
		Needs:    "RPS, and cores whose backlog fills: those that take the interrupts. CONFIG_NET_FLOW_LIMIT",
		Grade:    knob.GradeC,
		Evidence: "the kernel's own scaling guide recommends it for servers with many connections, without a number",
		Undo:     "the old mask is written back",
	},
	Knob: coreMask{sysctl{name: "net.core.flow_limit_cpu_bitmap", global: true}},
}

// coreMask is a knob that is a sysctl with a mask of cores, shown as a list.
type coreMask struct{ sysctl }

// Get is of [knob.Knob].
func (c coreMask) Get(m knob.Machine, t knob.Target) (knob.Reading, error) {
	r, err := c.sysctl.Get(m, t)
	if err != nil {
		return r, err
	}
	r.Value, err = knob.ParseMask(r.Value)
	return r, err
}

// Plan is of [knob.Knob].
func (c coreMask) Plan(m knob.Machine, t knob.Target, value string) ([]setting.Write, error) {
	mask, err := knob.FormatMask(value)
	if err != nil {
		return nil, verr.New(verr.Usage, fmt.Sprintf("cannot set %s to %q", c.name, value), err.Error(), "write cores as 0-3,8, or none")
	}
	return c.sysctl.Plan(m, t, mask)
}

// Range is of [knob.Ranger]: all cores that are on.
func (c coreMask) Range(m knob.Machine, t knob.Target) ([]string, error) {
	now, err := c.Get(m, t)
	if err != nil {
		return nil, err
	}
	v, err := m.Settings.Read(setting.Setting{Backend: "kernel", Key: "/sys/devices/system/cpu/online"})
	if all := strings.TrimSpace(v.String()); err == nil && all != now.Value {
		return []string{all}, nil
	}
	return nil, err
}
