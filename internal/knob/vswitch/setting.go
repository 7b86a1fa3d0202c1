package vswitch

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/ovs"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/verr"
)

// byDefault is the value of a key that is not in a database: what the program takes
// when nobody says anything.
const byDefault = "default"

// ovsSettings is a knob of keys in the database of a switch. Its value names
// each, as "flow-limit=400000,max-idle=default"; that of a single key is bare.
type ovsSettings struct {
	parts  []ovsSetting
	trials []string
	note   string
	// fits tells why the switch has no use for it; nil: each has.
	fits func(ovs.Running) string
	// effect reads what is really in effect of the values by their words, which
	// are those in the database; nil: that cannot be read. What it leaves out is
	// not known. It may be asked again for a while, since the switch follows its
	// database by and by.
	effect func(knob.Target, map[string]string) (effective map[string]string, note string)
}

// ovsSetting is one key.
type ovsSetting struct {
	word    string
	setting func(socket, key string) setting.Setting
	key     string
	onOff   bool // it is true or false, and called on and off
	check   func(string) error
}

// followed is how long a switch may take to do what its database says, and how
// often it is looked at meanwhile.
var followed = host.ScaleTimeout(time.Second)

const followedPoll = 50 * time.Millisecond

// now reads all keys.
func (s ovsSettings) now(m knob.Machine, t knob.Target) (map[string]string, error) {
	look, err := ovs.LookAt(t.Switch)
	if err != nil {
		return nil, noDatabase("Open vSwitch", err)
	}
	if s.fits != nil {
		if why := s.fits(look); why != "" {
			return nil, verr.New(verr.Missing, "cannot use this knob on the switch", why, "leave it alone here")
		}
	}
	values := map[string]string{}
	for _, p := range s.parts {
		v, err := m.Settings.Read(p.setting(t.Switch, p.key))
		if err != nil {
			return nil, err
		}
		values[p.word] = byDefault
		if v.Present {
			values[p.word] = v.String()
		}
		if p.onOff {
			values[p.word] = knob.Truth.Parse(values[p.word])
		}
	}
	return values, nil
}

func noDatabase(of string, err error) error {
	if errors.Is(err, ovs.ErrNoDatabase) {
		return verr.Wrap(verr.Missing, "cannot read the database of "+of, err, "start it, or name its socket with --db")
	}
	return err
}

// text writes values in the order of the parts.
func (s ovsSettings) text(values map[string]string) string {
	if len(s.parts) == 1 {
		return values[s.parts[0].word]
	}
	var words []string
	for _, p := range s.parts {
		words = append(words, p.word+"="+values[p.word])
	}
	return strings.Join(words, ",")
}

// Get is of [knob.Knob].
func (s ovsSettings) Get(m knob.Machine, t knob.Target) (knob.Reading, error) {
	values, err := s.now(m, t)
	if err != nil {
		return knob.Reading{}, err
	}
	r := knob.Reading{Value: s.text(values), Note: s.note}
	if s.effect == nil {
		return r, nil
	}
	for start := time.Now(); ; time.Sleep(followedPoll) {
		effective, note := s.effect(t, values)
		differs := false
		shown := map[string]string{}
		for word, value := range values {
			shown[word] = value
			if e, known := effective[word]; known && value != byDefault && e != value {
				shown[word], differs = e, true
			}
		}
		if differs && time.Since(start) < followed {
			continue
		}
		if differs {
			r.Effective = s.text(shown)
		}
		if note != "" {
			r.Note = strings.TrimPrefix(r.Note+"; "+note, "; ")
		}
		return r, nil
	}
}

// Plan is of [knob.Knob].
func (s ovsSettings) Plan(m knob.Machine, t knob.Target, value string) ([]setting.Write, error) {
	if _, err := s.now(m, t); err != nil {
		return nil, err
	}
	named := map[string]string{s.parts[0].word: value}
	if strings.Contains(value, "=") {
		var err error
		if named, err = knob.ParseAssignments(value); err != nil {
			return nil, err
		}
	}
	var writes []setting.Write
	for _, p := range s.parts {
		v, ok := named[p.word]
		if !ok {
			continue
		}
		delete(named, p.word)
		if p.onOff {
			v, _ = knob.Truth.Text(v)
		}
		w := setting.Write{Setting: p.setting(t.Switch, p.key)}
		if v != byDefault {
			if err := p.check(v); err != nil {
				return nil, verr.New(verr.Usage, fmt.Sprintf("cannot set %s to %q", p.key, v), err.Error(), knob.SeeValues)
			}
			w.Value = setting.Text(v)
		}
		writes = append(writes, w)
	}
	for word := range named {
		return nil, verr.New(verr.Usage, fmt.Sprintf("cannot set %q", value), fmt.Sprintf("there is no %q in it", word), knob.SeeValues)
	}
	return writes, nil
}

// Range is of [knob.Ranger]: the trials that change something.
func (s ovsSettings) Range(m knob.Machine, t knob.Target) ([]string, error) {
	now, err := s.now(m, t)
	if err != nil {
		return nil, err
	}
	var worth []string
	for _, trial := range s.trials {
		changes := trial != s.text(now)
		if strings.Contains(trial, "=") {
			named, err := knob.ParseAssignments(trial)
			if err != nil {
				return nil, err
			}
			changes = false
			for word, v := range named {
				changes = changes || now[word] != v
			}
		}
		if changes {
			worth = append(worth, trial)
		}
	}
	return worth, nil
}
