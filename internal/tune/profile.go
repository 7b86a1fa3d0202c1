package tune

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/knob/table"
	"github.com/venturi-net/venturi/internal/verr"
)

// Profile is a list of steps that somebody recommends. None of them is more than
// a candidate until a proof has shown that it helps on this machine.
type Profile struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	Steps []Step `json:"steps"`
}

// StepState is what is known of a step.
type StepState string

// States.
const (
	NotShown       StepState = "not shown"       // nobody has shown here that it helps
	Obsolete       StepState = "obsolete"        // there is no such thing any more: the note says what to do instead
	WrongWayRound  StepState = "wrong way round" // the published list sets the opposite of what it says: the step here is what it meant
	NeverAutomatic StepState = "never automatic" // left to a person: the note says why
)

// Step is one entry of a profile.
type Step struct {
	Name      string         `json:"name"`             // what the published list calls it
	Knob      string         `json:"knob,omitempty"`   // which knob; empty: none can do it
	On        Group          `json:"on,omitempty"`     // which targets
	Value     string         `json:"value,omitempty"`  // what it shall be set to
	Ladder    []string       `json:"ladder,omitempty"` // or the values to try, in this order. Neither: those that the knob finds worth a trial
	Condition Condition      `json:"when,omitzero"`    // only where this holds
	Needs     []Prerequisite `json:"needs,omitempty"`  // only where these are so, or a step before makes them so
	Reason    string         `json:"why"`
	State     StepState      `json:"state"`
	Note      string         `json:"note,omitempty"`
}

// Condition is when a step is worth a trial.
type Condition struct {
	Text string `json:"text,omitempty"` // "receive queues dropped packets"
	// Holds tells whether it does, and the values that say so: "rx_missed_errors 0".
	// nil: it cannot be read; a trial says it.
	Holds func(knob.Machine, knob.Target) (holds bool, seen string, err error) `json:"-"`
}

// Prerequisite is the value that another knob must have on the same target.
type Prerequisite struct {
	Knob  string `json:"knob"`
	Value string `json:"value"`
}

// Group is a kind of targets.
type Group string

// Groups of targets.
const (
	Host      Group = "host"      // the whole host
	NICs      Group = "nics"      // devices that packets leave the machine by
	Tunnels   Group = "tunnels"   // devices that put packets into others: vxlan, geneve, ipip
	Veths     Group = "veths"     // ends of pods' devices
	Machines  Group = "machines"  // namespaces of machines
	Pods      Group = "pods"      // namespaces of pods
	Manifests Group = "manifests" // files
	Switches  Group = "switches"  // databases of Open vSwitch
	Centrals  Group = "centrals"  // northbound databases of OVN
)

// Targets is what a profile may touch: nothing else is.
type Targets struct {
	Host      bool          // the whole host
	NICs      []knob.Target // each a device in a namespace
	Tunnels   []knob.Target
	Veths     []knob.Target
	Machines  []string // files of namespaces; an empty one is that of the process
	Pods      []string
	Manifests []string // files
	Switches  []string // sockets; an empty one is where its package puts it
	Centrals  []string
}

// InGroup lists the targets of a group.
func (t Targets) InGroup(g Group) []knob.Target {
	list := func(words []string, to func(string) knob.Target) (targets []knob.Target) {
		for _, w := range words {
			targets = append(targets, to(w))
		}
		return targets
	}
	inNetns := func(path string) knob.Target { return knob.Target{Netns: path} }
	bySocket := func(path string) knob.Target { return knob.Target{Switch: path} }
	switch g {
	case Host:
		if t.Host {
			return []knob.Target{{}}
		}
	case NICs:
		return t.NICs
	case Tunnels:
		return t.Tunnels
	case Veths:
		return t.Veths
	case Machines:
		return list(t.Machines, inNetns)
	case Pods:
		return list(t.Pods, inNetns)
	case Manifests:
		return list(t.Manifests, func(file string) knob.Target { return knob.Target{File: file} })
	case Switches:
		return list(t.Switches, bySocket)
	case Centrals:
		return list(t.Centrals, bySocket)
	}
	return nil
}

// Profiles lists all profiles.
func Profiles() []Profile {
	all := []Profile{latency(), throughput(), balanced(), kubeOVN(), cilium()}
	for _, p := range all {
		for i := range p.Steps {
			if p.Steps[i].State == "" {
				p.Steps[i].State = NotShown
			}
		}
	}
	return all
}

// FindProfile gives a profile by its name. Error: there is none of that name.
func FindProfile(name string) (Profile, error) {
	var names []string
	for _, p := range Profiles() {
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Profile{}, verr.New(verr.Usage, fmt.Sprintf("cannot use profile %q", name), "there is no such profile", "choose from: "+strings.Join(names, ", "))
}

// Assignments gives what the profile would have set on a machine, and why not the
// rest. Steps that are obsolete or never automatic are never among the assignments.
// What one target does not have is no error: it is skipped there. Error: m has
// no settings to read.
func (p Profile) Assignments(m knob.Machine, targets Targets) (assignments []Assignment, skipped []Skipped, err error) {
	if m.Settings == nil {
		return nil, nil, errors.New("list assignments: there are no settings to read")
	}
	owners := findOwners(m)
	for i := range p.Steps {
		step := &p.Steps[i]
		skip := func(kind SkipKind, why string) {
			skipped = append(skipped, Skipped{Step: *step, Kind: kind, Reason: why})
		}
		if why := step.barred(); why != "" {
			skip(LeftToPerson, why)
			continue
		}
		entry, err := table.Find(step.Knob)
		if err != nil {
			skip(Unable, reason(err))
			continue
		}
		if entry.ManualOnly != "" {
			skip(LeftToPerson, string(NeverAutomatic)+": "+entry.ManualOnly)
			continue
		}
		if why := owners.ownerOf(step.Knob, assignments); why != "" {
			skip(OwnedByOther, why)
			continue
		}
		on := targets.InGroup(step.On)
		if len(on) == 0 {
			skip(NotNamed, step.On.absent(targets))
		}
		found := len(on) == 1
		for _, t := range on {
			_, err := entry.Get(m, t)
			if step.On == Manifests && len(on) > 1 && verr.Code(err) == verr.Missing {
				continue // it is of another file
			}
			found = true
			w, left := step.assign(m, entry, t, err == nil, assignments)
			if left != nil {
				skipped = append(skipped, *left)
				continue
			}
			assignments = append(assignments, w)
		}
		if len(on) > 0 && !found {
			skip(NotNamed, "none of the files has what it is about")
		}
	}
	assignments, left := dropUnowned(assignments, skipped)
	return assignments, append(skipped, left...), nil
}

// assign gives what a step comes to on one target, or why it is skipped there. Its condition says nothing of a
// knob that is not readable.
func (s *Step) assign(m knob.Machine, entry knob.Entry, t knob.Target, readable bool,
	before []Assignment) (Assignment, *Skipped) {
	left := Skipped{Step: *s, Target: t, Kind: Unmet, Reason: unmet(m, t, s.Needs, before)}
	if left.Reason == "" && readable {
		left.Kind = Unfounded
		left.Reason, left.Observed = s.unmetCondition(m, t)
	}
	w := Assignment{}
	if left.Reason == "" {
		w, left.Kind, left.Reason = s.assignment(m, entry, t)
	}
	if left.Reason != "" {
		return w, &left
	}
	return w, nil
}

// barred says why a step is none for a program to take; empty: it is one.
func (s *Step) barred() string {
	switch {
	case s.State == Obsolete, s.State == NeverAutomatic:
		return string(s.State) + ": " + s.Note
	case s.Knob == "":
		return "no knob does this: " + s.Note
	}
	return ""
}

// unmetCondition says why a step's condition does not hold, and the values that say so; "": it does.
func (s *Step) unmetCondition(m knob.Machine, t knob.Target) (why, seen string) {
	if s.Condition.Holds == nil {
		return "", ""
	}
	switch holds, seen, err := s.Condition.Holds(m, t); {
	case err != nil:
		return reason(err), ""
	case !holds:
		return "only when " + s.Condition.Text + "; found: " + seen, seen
	}
	return "", ""
}

// assignment is what a step comes to on one target, or why to nothing.
func (s *Step) assignment(m knob.Machine, entry knob.Entry, t knob.Target) (Assignment, SkipKind, string) {
	now, err := entry.Get(m, t)
	if err != nil {
		return Assignment{}, Unable, reason(err)
	}
	w := Assignment{Knob: entry, Target: t, Value: s.Value, Step: s}
	values := []string{s.Value}
	if s.Value == "" {
		values = s.Ladder
		if r, ok := entry.Knob.(knob.Ranger); ok && values == nil {
			if values, err = r.Range(m, t); err != nil {
				return w, Unable, reason(err)
			}
		}
	}
	kind, why := AlreadySet, "no other value is worth a trial here"
	for _, v := range values {
		w.Value = v
		same, err := isApplied(m, w)
		switch {
		case err != nil:
			kind, why = Unable, reason(err)
		case same:
			kind, why = AlreadySet, "it is "+now.Value+" already"
		default:
			w.Ladder = append(w.Ladder, v)
		}
	}
	if len(w.Ladder) == 0 {
		return w, kind, why
	}
	w.Value = w.Ladder[0]
	if s.Value != "" {
		w.Ladder = nil
	}
	return w, "", ""
}

// unmet says which need of a step is neither met nor assigned before; "": none.
func unmet(m knob.Machine, t knob.Target, needs []Prerequisite, assignments []Assignment) string {
	for _, n := range needs {
		if slices.ContainsFunc(assignments, func(w Assignment) bool { return w.Knob.Name == n.Knob && w.Value == n.Value && w.Target == t }) {
			continue
		}
		e, err := table.Find(n.Knob)
		if err != nil {
			return reason(err)
		}
		now, err := e.Get(m, t)
		if err != nil {
			return reason(err)
		}
		if now.Value != n.Value {
			return fmt.Sprintf("it needs %s to be %s first, which is %s", n.Knob, n.Value, now.Value)
		}
	}
	return ""
}

// reason is why something cannot be, in one line.
func reason(err error) string {
	var v *verr.Error
	if errors.As(err, &v) {
		return v.Reason + " (" + v.Hint + ")"
	}
	return err.Error()
}
