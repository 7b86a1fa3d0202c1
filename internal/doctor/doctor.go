// Package doctor reads a machine and names what is wrong with its network: one
// rule a file, or a few of a kind, and a line in the table. It changes nothing.
//
// Look reads everything into a View, rules judge the View without asking the
// machine again, and Examine collects what they find.
package doctor

import (
	"github.com/venturi-net/venturi/internal/host"
)

// Severity is how much a finding matters.
type Severity string

// Severities, the worst first.
const (
	Error   Severity = "error"   // packets are lost, or will be
	Warning Severity = "warning" // the network is slower, or costs more, than it need be
	Note    Severity = "note"    // good to know; it may be as somebody wants it
)

// Severities lists them, the worst first.
var Severities = []Severity{Error, Warning, Note}

// Impact is what others saw of the size of a fault, or of mending it.
type Impact struct {
	Size   string `json:"size"`
	Source string `json:"source"`
	Grade  string `json:"grade"` // A repeated runs with spread, B a number by a weak method, C no number, D sources contradict
}

// Facts are what there is to know of a rule without a machine.
type Facts struct {
	Code     string // stable: "tunnel-checksum-off"
	Title    string
	Severity Severity // the worst that a finding of it has
	Looks    string   // what it looks at, and when it finds something
	Effect   Impact
	Knob     string // that would mend it; empty: none does
	Value    string // that it would be turned to
	Do       string // what to do where no knob does it, or what to think of before
}

// Rule is a line of the table.
type Rule struct {
	Facts
	Check func(*View) []Finding // fills in the place, the evidence, and what differs from the facts
}

// Evidence is one thing that was read.
type Evidence struct {
	Read  string `json:"read"`  // a file, or what the kernel was asked for
	Value string `json:"value"` // what it said
}

// Finding is one thing that is off.
type Finding struct {
	Code     string     `json:"code"`
	Severity Severity   `json:"severity"`
	Title    string     `json:"title"`
	Netns    string     `json:"netns,omitempty"`    // as --netns names it; empty: the one that the command ran in, or the machine as a whole
	Device   string     `json:"device,omitempty"`   // empty: the namespace, or the machine as a whole
	Place    string     `json:"place"`              // where that is, in a sentence
	Machines []string   `json:"machines,omitempty"` // where it was found, if several were examined
	Evidence []Evidence `json:"evidence"`
	Effect   Impact     `json:"effect"`
	Knob     string     `json:"knob,omitempty"`
	Value    string     `json:"value,omitempty"`
	Fix      string     `json:"fix,omitempty"` // the command that fixes it
	Do       string     `json:"do,omitempty"`

	location location
}

// location says what a finding is of.
type location struct {
	netns  *Netns // nil: the machine as a whole
	device *host.NetDevice
}

// finding makes a finding of a device, or of a namespace when it is nil, or of the
// machine as a whole when both are.
func finding(s *Netns, d *host.NetDevice, evidence ...Evidence) Finding {
	return Finding{Evidence: evidence, location: location{s, d}}
}
