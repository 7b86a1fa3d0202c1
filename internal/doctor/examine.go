package doctor

import (
	"cmp"
	"context"
	"slices"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/knob/table"
	"github.com/venturi-net/venturi/internal/sanitize"
)

// reportVersion is that of the JSON form of a report. In the first one, Fix was "mend" and Coverage "looked".
const reportVersion = 2

// Report is what was found.
type Report struct {
	Version  int       `json:"version"`            // of this form
	Machines []string  `json:"machines,omitempty"` // that were examined, if there are several
	Findings []Finding `json:"findings"`
	Coverage Coverage  `json:"examined"`
	// KubeProxy is the mode in which kube-proxy has set up Services; empty: it has not.
	KubeProxy string `json:"kube_proxy,omitempty"`
	// Noun is what the machines are called; empty: machine.
	Noun string `json:"-"`
}

// Add adds a finding of the machines together.
func (r *Report) Add(f Finding) {
	r.Findings = append(r.Findings, f)
	r.sort()
}

// Coverage says how much was looked at.
type Coverage struct {
	Namespaces int     `json:"namespaces"`
	Devices    int     `json:"devices"`
	Rules      int     `json:"rules"`
	Seconds    float64 `json:"seconds"` // between the two readings of counters; 0: there was one
}

// Examine looks at the machine and judges it. Errors are those of [Read].
func Examine(ctx context.Context, o Options) (*Report, error) {
	v, err := Read(ctx, o)
	if err != nil {
		return nil, err
	}
	return Judge(v, o), nil
}

// Judge applies all rules to a view, and keeps what was asked for: the worst
// first, and what is alike together.
func Judge(v *View, o Options) *Report {
	r := &Report{Version: reportVersion, Findings: []Finding{}, Coverage: Coverage{Rules: len(Table), Seconds: v.seconds()}, KubeProxy: v.kubeProxyMode()}
	for _, s := range v.Netns {
		if o.wanted(location{s, nil}) {
			r.Coverage.Namespaces++
		}
		for i := range s.Devices {
			if o.wanted(location{s, &s.Devices[i]}) {
				r.Coverage.Devices++
			}
		}
	}
	for _, rule := range Table {
		for _, f := range rule.Check(v) {
			if o.wanted(f.location) {
				r.Findings = append(r.Findings, rule.complete(f))
			}
		}
	}
	r.sort()
	return r
}

// sort puts the worst findings first.
func (r *Report) sort() {
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return slices.Index(Severities, a.Severity) - slices.Index(Severities, b.Severity)
	})
}

// Worst is the worst severity of the findings; empty: there are none.
func (r *Report) Worst() Severity {
	if len(r.Findings) == 0 {
		return ""
	}
	return r.Findings[0].Severity
}

// complete fills in what a finding has of its rule, where the rule's check did
// not say otherwise.
func (r Rule) complete(f Finding) Finding {
	f.Code, f.Title, f.Effect = r.Code, r.Title, r.Effect
	f.Severity, f.Do = cmp.Or(f.Severity, r.Severity), cmp.Or(f.Do, r.Do)
	if f.Knob == "" { // a value is of its knob
		f.Knob, f.Value = r.Knob, cmp.Or(f.Value, r.Value)
	}
	if f.location.netns != nil {
		f.Netns = f.location.netns.argument()
	}
	if f.location.device != nil {
		f.Device = f.location.device.Name
	}
	f.Place = f.place()
	f.Fix = fixCommand(f)
	return f
}

// fixCommand is the command that turns the knob, with what of the place its scope asks for. Empty:
// there is no such knob, or no value for it.
func fixCommand(f Finding) string {
	e, err := table.Find(f.Knob)
	if err != nil || f.Value == "" {
		return ""
	}
	words := []string{"venturi", "knob", "set", f.Knob, f.Value}
	if f.Device != "" && e.Scope == knob.ScopeDevice {
		words = append(words, "--dev", f.Device)
	}
	if f.Netns != "" && e.Scope != knob.ScopeMachine {
		words = append(words, "--netns", f.Netns)
	}
	return sanitize.Command(words...)
}
