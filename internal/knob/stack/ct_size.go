package stack

import (
	"fmt"
	"os"
	"strconv"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/setting"
)

// ctSize is how many connections are tracked at once.
var ctSize = knob.Entry{
	Facts: knob.Facts{
		Name:     "ct.size",
		Title:    "The most connections that conntrack tracks, and the buckets of its table",
		Values:   "max=262144,buckets=65536, or some of it; a number alone is max. Buckets are rounded up to whole pages",
		Scope:    knob.ScopeMachine,
		Helps:    []knob.Benefit{knob.Drops},
		Risk:     "memory: about 300 bytes per connection",
		Needs:    "net.netfilter.nf_conntrack_count near the maximum, or \"table full\" in the kernel's log. The module nf_conntrack",
		Grade:    knob.GradeC,
		Evidence: "tuned and every cluster raise it, without a number: a full table drops new connections",
		Undo:     "the old values are written back; connections beyond the old maximum stay until they end",
	},
	Knob: tracking{sysctlGroup{
		parts: []groupMember{
			{"max", sysctl{name: "net.netfilter.nf_conntrack_max", global: true, check: knob.Number(1, 1<<30)}},
			{bucketsWord, sysctl{name: "net.netfilter.nf_conntrack_buckets", global: true, check: knob.Number(1, 1<<26)}},
		},
		trials: []string{"max=262144", "max=1048576"},
		note:   "the maximum holds for each namespace by itself, and the table is the machine's",
	}},
}

const bucketsWord = "buckets"

// tracking is the knob of the table of connections.
type tracking struct{ sysctlGroup }

// Plan is of [knob.Knob]. The kernel makes the table of whole pages: what it will
// show is what is planned.
func (k tracking) Plan(m knob.Machine, t knob.Target, value string) ([]setting.Write, error) {
	writes, err := k.sysctlGroup.Plan(m, t, value)
	if err != nil {
		return nil, err
	}
	perPage := os.Getpagesize() * 8 / strconv.IntSize
	for i, w := range writes {
		for _, p := range k.parts {
			s, err := p.setting(t)
			if err != nil {
				return nil, err
			}
			if p.word != bucketsWord || s != w.Setting {
				continue
			}
			n, err := strconv.Atoi(w.Value.String())
			if err != nil {
				return nil, fmt.Errorf("read number of buckets: %w", err)
			}
			writes[i].Value = setting.Text(strconv.Itoa((n + perPage - 1) / perPage * perPage))
		}
	}
	return writes, nil
}
