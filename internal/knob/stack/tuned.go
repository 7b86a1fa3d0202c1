package stack

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/verr"
)

// tunedProfile is the profile of tuned, a program that tunes machines.
var tunedProfile = knob.Entry{
	Facts: knob.Facts{
		Name:       "tuned.profile",
		Title:      "The profile of tuned",
		Values:     "the name of one, such as network-latency, or several with blanks between; none",
		Scope:      knob.ScopeMachine,
		Helps:      []knob.Benefit{knob.Latency, knob.Throughput},
		Risk:       "changes much at once. network-latency and other profiles also write the boot line, which the next boot takes; power; and none of tuned's network profiles touches rings, coalescing, interrupts, RPS, offloads or a virtual device",
		Needs:      "tuned, running (systemctl start tuned)",
		Grade:      knob.GradeC,
		Evidence:   "tuned's own profiles carry no numbers; network-throughput says of itself that it is for old processors and 40 Gbit/s",
		Undo:       "tuned-adm turns the old profile, or none, on again, and its files get their old bytes. What the profile had changed tuned brings back itself, by what it remembers",
		ManualOnly: "it changes many things at once, some of them in the boot line: take the single knobs",
	},
	Knob: tunedKnob{},
}

// tunedKnob is the knob of tuned's profile.
type tunedKnob struct{}

const noProfile = "none"

func (tunedKnob) setting() setting.Setting { return setting.Setting{Backend: "tuned", Key: "profile"} }

// profiles lists those that tuned finds. A newer version keeps its own in a
// folder below.
func (tunedKnob) profiles(m knob.Machine) (names []string) {
	for _, folder := range []string{"/etc/tuned", "/etc/tuned/profiles", "/usr/lib/tuned", "/usr/lib/tuned/profiles"} {
		entries, err := os.ReadDir(filepath.Join(m.Root, folder))
		if err != nil {
			continue
		}
		for _, e := range entries {
			if _, err := os.Stat(filepath.Join(m.Root, folder, e.Name(), "tuned.conf")); err == nil && !slices.Contains(names, e.Name()) {
				names = append(names, e.Name())
			}
		}
	}
	slices.Sort(names)
	return names
}

// Get is of [knob.Knob].
func (k tunedKnob) Get(m knob.Machine, _ knob.Target) (knob.Reading, error) {
	if len(k.profiles(m)) == 0 {
		return knob.Reading{}, verr.New(verr.Missing, "cannot read the profile of tuned", "there is no tuned on this machine", "install it (package tuned), or take the single knobs")
	}
	v, err := m.Settings.Read(k.setting())
	if err != nil {
		return knob.Reading{}, err
	}
	state, err := setting.TunedStateOf(v)
	if err != nil {
		return knob.Reading{}, err
	}
	r := knob.Reading{Value: noProfile}
	if name := state.Name(); name != "" {
		r.Value = name
	}
	if state.Mode != nil && strings.TrimSpace(*state.Mode) == "auto" {
		r.Note = "tuned chose it itself"
	}
	if !k.running(m) {
		r.Note = strings.TrimPrefix(r.Note+"; tuned is not running: nothing of it is in effect", "; ")
	}
	return r, nil
}

// running tells whether the daemon is there.
func (tunedKnob) running(m knob.Machine) bool {
	pid, err := os.ReadFile(filepath.Join(m.Root, "/run/tuned/tuned.pid"))
	if err != nil {
		return false
	}
	_, err = os.Stat(filepath.Join(m.Root, "/proc", strings.TrimSpace(string(pid))))
	return err == nil
}

// Plan is of [knob.Knob].
func (k tunedKnob) Plan(m knob.Machine, t knob.Target, value string) ([]setting.Write, error) {
	if _, err := k.Get(m, t); err != nil {
		return nil, err
	}
	what := "cannot set the profile of tuned to " + value
	if !k.running(m) {
		return nil, verr.New(verr.Missing, what, "tuned is not running, and to start it would be one more change", "start it first: systemctl start tuned")
	}
	names := strings.Fields(value)
	known := k.profiles(m)
	profile, mode := strings.Join(names, " ")+"\n", "manual\n"
	if value == noProfile {
		names, profile = nil, ""
	} else if len(names) == 0 {
		names = []string{value}
	}
	for _, n := range names {
		if !slices.Contains(known, n) {
			return nil, verr.New(verr.Usage, what, "tuned has no such profile", "take one of: "+strings.Join(known, ", "))
		}
	}
	v, err := setting.TunedState{Profile: &profile, Mode: &mode}.Text()
	return []setting.Write{{Setting: k.setting(), Value: v}}, err
}

// Range is of [knob.Ranger]: the two profiles for networks that it does not have.
func (k tunedKnob) Range(m knob.Machine, t knob.Target) ([]string, error) {
	now, err := k.Get(m, t)
	if err != nil {
		return nil, err
	}
	known := k.profiles(m)
	return slices.DeleteFunc([]string{"network-latency", "network-throughput"}, func(p string) bool {
		return p == now.Value || !slices.Contains(known, p)
	}), nil
}
