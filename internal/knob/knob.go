// Package knob says what a thing is that can be tuned, and has what knobs share: values,
// lists of cores, and queues. The knobs are in the packages below it, by what they turn,
// one file a knob or a few of a kind. A knob knows how to read its value and which settings
// must be written for another one. It writes nothing itself: package tune does, by the
// journal.
package knob

import (
	"errors"
	"fmt"
	"strings"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/verr"
)

// Machine is what knobs read: settings, and files below a root. The zero Root is the
// machine that the process runs on.
type Machine struct {
	host.Reader
	Settings *setting.Settings
}

// Target is what a knob is turned on. What of it is used, the knob's scope says.
type Target struct {
	Netns  string `json:"netns,omitempty"`  // file of a network namespace; empty: that of the process
	Device string `json:"device,omitempty"` // a network device in it
	File   string `json:"file,omitempty"`   // a manifest
	Switch string `json:"switch,omitempty"` // socket of an Open vSwitch's or OVN's database; empty: where its package puts it
}

func (t Target) String() string {
	var parts []string
	for _, p := range []struct{ name, value string }{{"dev", t.Device}, {"netns", host.NamedFile(t.Netns)}, {"manifest", t.File}, {"db", t.Switch}} {
		if p.value != "" {
			parts = append(parts, p.name+" "+p.value)
		}
	}
	return strings.Join(parts, " ")
}

// Scope is the target's namespace, or its device if it names one.
func (t Target) Scope() (setting.Scope, error) {
	if t.Device != "" {
		return setting.DeviceScope(t.Netns, t.Device)
	}
	return setting.NetnsScope(t.Netns)
}

// Knob is one thing that can be tuned.
type Knob interface {
	// Get reads the value. Error: a [verr.Error] of code Missing where the target
	// has no such thing.
	Get(Machine, Target) (Reading, error)

	// Plan gives the writes that make the knob's value another one, in order;
	// those of settings that hold theirs already may be among them. It changes
	// nothing. Error: a value that makes no sense, or that the target cannot have.
	Plan(m Machine, t Target, value string) ([]setting.Write, error)
}

// Ranger is a knob that knows which values are worth a trial on a target, the
// one that it has now not among them.
type Ranger interface {
	Range(Machine, Target) ([]string, error)
}

// Reading is the value of a knob, in the words in which it is set.
type Reading struct {
	Value     string `json:"value"`
	Effective string `json:"effective,omitempty"` // what is really in effect; empty: the value
	Note      string `json:"note,omitempty"`      // what else to know of it here

	// First are knobs and values, "cil.bwm on", without which it has no effect: to be set before it.
	First []string `json:"first,omitempty"`
}

// ScopeKind is what a knob is turned on.
type ScopeKind string

// Scopes.
const (
	ScopeMachine  ScopeKind = "machine"  // all of it, whatever the namespace
	ScopeNetns    ScopeKind = "netns"    // one network namespace: a pod's, or the machine's own
	ScopeDevice   ScopeKind = "device"   // one network device, physical or virtual
	ScopeSwitch   ScopeKind = "switch"   // Open vSwitch or OVN, by their databases
	ScopeManifest ScopeKind = "manifest" // a file that somebody will apply to a cluster
)

// Benefit is what a knob may help.
type Benefit string

// Effects.
const (
	Latency    Benefit = "latency"
	Throughput Benefit = "throughput"
	Packets    Benefit = "packets" // a second
	CPU        Benefit = "cpu"     // what traffic costs
	Drops      Benefit = "drops"   // and other trouble
)

// Grade is how good the evidence for a knob is that others give.
type Grade string

// Grades.
const (
	GradeA Grade = "A" // repeated runs with their spread
	GradeB Grade = "B" // a number, by a weak method
	GradeC Grade = "C" // a recommendation without a number
	GradeD Grade = "D" // sources contradict each other
)

// Facts are what there is to know of a knob without a machine.
type Facts struct {
	Name       string    `json:"name"` // "net.backlog"
	Title      string    `json:"title"`
	Values     string    `json:"values"` // what can be set: "packets, such as 2000"
	Scope      ScopeKind `json:"scope"`
	Helps      []Benefit `json:"helps"`
	Risk       string    `json:"risk"`
	Needs      string    `json:"needs"` // when it can be set, and when it is worth it
	Grade      Grade     `json:"grade"`
	Evidence   string    `json:"evidence"`          // with its source
	Undo       string    `json:"undo"`              // how it is undone, and what stays
	ManualOnly string    `json:"never,omitempty"`   // why it is never used automatically
	Instead    string    `json:"instead,omitempty"` // obsolete: what to do instead. It has no Knob
}

// Entry is a line of the table.
type Entry struct {
	Facts
	Knob
}

// SeeValues is what to do about a value that makes no sense: [Entry.Plan] says the
// rest, the knob's name and its values.
const SeeValues = "see what it takes with: venturi knob ls"

// Plan is of [Knob]. A value that makes no sense is an error that names the knob,
// and the values that it has.
func (e Entry) Plan(m Machine, t Target, value string) ([]setting.Write, error) {
	writes, err := e.Knob.Plan(m, t, value)
	if v := new(verr.Error); errors.As(err, &v) && v.Hint == SeeValues {
		what := fmt.Sprintf("cannot set %s to %q", e.Name, value)
		return nil, &verr.Error{Code: v.Code, Summary: what, Reason: v.Reason, Hint: fmt.Sprintf("it takes %s; see: venturi knob ls %s", e.Values, e.Name), Err: err}
	}
	return writes, err
}
