package knob

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/verr"
)

// flowLimit drops packets of flows that fill a core's backlog, so that others
// get through.
var flowLimit = Entry{
	Facts: Facts{
		Name:     "net.flow_limit",
		Title:    "On which cores a large flow may not fill the backlog at the expense of small ones",
		Values:   "cores, such as 0-3,8; none",
		Scope:    ScopeMachine,
		Helps:    []Benefit{Latency, Drops},
		Risk:     "packets of large flows are dropped once the backlog is half full",
		Needs:    "RPS, and cores whose backlog fills: those that take the interrupts. CONFIG_NET_FLOW_LIMIT",
		Grade:    GradeC,
		Evidence: "the kernel's own scaling guide recommends it for servers with many connections, without a number",
		Undo:     "the old mask is written back",
	},
	Knob: coreMask{sysctl{name: "net.core.flow_limit_cpu_bitmap", global: true}},
}

// coreMask is a knob that is a sysctl with a mask of cores, shown as a list.
type coreMask struct{ sysctl }

// Get is of [Knob].
func (c coreMask) Get(m Machine, t Target) (Reading, error) {
	r, err := c.sysctl.Get(m, t)
	if err != nil {
		return r, err
	}
	r.Value, err = coresOfMask(r.Value)
	return r, err
}

// Plan is of [Knob].
func (c coreMask) Plan(m Machine, t Target, value string) ([]setting.Write, error) {
	mask, err := maskOfCores(value)
	if err != nil {
		return nil, verr.New(verr.Usage, fmt.Sprintf("cannot set %s to %q", c.name, value), err.Error(), "write cores as 0-3,8, or none")
	}
	return c.sysctl.Plan(m, t, mask)
}

// Range is of [Ranger]: all cores that are on.
func (c coreMask) Range(m Machine, t Target) ([]string, error) {
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

// maskWord is how many cores a word of a mask is for, and mostCores how many
// any machine has.
const (
	maskWord  = 32
	mostCores = 8192
)

// coresOfMask reads the kernel's "3,00000001" as "0,32-33".
func coresOfMask(mask string) (string, error) {
	words := strings.Split(strings.TrimSpace(mask), ",")
	var on []int
	for i := range words {
		word, err := strconv.ParseUint(words[len(words)-1-i], 16, maskWord)
		if err != nil {
			return "", fmt.Errorf("read mask of cores %q: %w", mask, err)
		}
		for bit := range maskWord {
			if word>>bit&1 == 1 {
				on = append(on, i*maskWord+bit)
			}
		}
	}
	if len(on) == 0 {
		return "none", nil
	}
	return spans(on), nil
}

// maskOfCores is the other way round.
func maskOfCores(list string) (string, error) {
	numbers, err := numbersIn(list)
	if err != nil {
		return "", err
	}
	words := []uint32{0}
	for _, core := range numbers {
		for len(words) <= core/maskWord {
			words = append(words, 0)
		}
		words[core/maskWord] |= 1 << (core % maskWord)
	}
	text := strconv.FormatUint(uint64(words[len(words)-1]), 16)
	for i := len(words) - 2; i >= 0; i-- {
		text += fmt.Sprintf(",%08x", words[i])
	}
	return text, nil
}
