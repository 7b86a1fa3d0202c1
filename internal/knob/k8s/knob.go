package k8s

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/internal/yamledit"
)

// defaultValue is the value of a knob whose setting a file does not have.
const defaultValue = "default"

// settings are those of one program of a cluster, as a file has them.
type settings interface {
	get(key string) (text string, there bool)
	set(key, text string) error
	drop(key string) error // no error where it is absent

	// partial tells whether the file may have only some of the program's settings,
	// so that what is absent says nothing.
	partial() bool
}

// settingChange is a setting and its text; drop: it shall be absent.
type settingChange struct {
	key, text string
	drop      bool
}

// manifestKnob is a knob that is one setting of a file, or a few that belong together.
type manifestKnob struct {
	open   func(manifest) (settings, error)
	keys   []string // which the knob is made of: absent where it is at its default
	read   func(settings) knob.Reading
	pairs  func(s settings, value string) ([]settingChange, error) // what a value other than the default is
	trials []string
}

func (k manifestKnob) setting(t knob.Target) (setting.Setting, error) {
	if t.File == "" {
		return setting.Setting{}, verr.New(verr.Usage, "cannot tell which file to read", "no manifest is named", "name one with --manifest FILE")
	}
	file, err := filepath.Abs(t.File)
	if err != nil {
		return setting.Setting{}, fmt.Errorf("name %s in full: %w", t.File, err)
	}
	return setting.Setting{Backend: "file", Key: file}, nil
}

// load reads the file of a target and finds the settings in it.
func (k manifestKnob) load(m knob.Machine, t knob.Target) (setting.Setting, manifest, settings, error) {
	file, err := k.setting(t)
	if err != nil {
		return file, manifest{}, nil, err
	}
	f, err := readManifest(m, file)
	if err != nil {
		return file, manifest{}, nil, err
	}
	s, err := k.open(f)
	return file, f, s, err
}

// CheckManifest says whether a file can be read as a manifest, before knobs are
// looked for in it: what is not there has none of them. Error: it cannot (exit
// code 2).
func CheckManifest(m knob.Machine, file string) error {
	_, err := readManifest(m, setting.Setting{Backend: "file", Key: file})
	return err
}

func readManifest(m knob.Machine, file setting.Setting) (manifest, error) {
	what := "cannot read " + file.Key
	v, err := m.Settings.Read(file)
	switch {
	case err != nil:
		return manifest{}, verr.Wrap(verr.Usage, what, err, "name a file that can be read")
	case !v.Present:
		return manifest{}, verr.New(verr.Usage, what, "there is no such file", "write what the cluster has into it: kubectl get -o yaml")
	}
	f, err := parseManifest(v.Data)
	if errors.Is(err, yamledit.ErrTemplate) {
		return manifest{}, verr.Wrap(verr.Usage, what, fmt.Errorf("it is a template of Helm: %w", err), "give the file that comes of it (helm template), or the values that it takes")
	}
	if err == nil && !slices.ContainsFunc(f.Docs, func(d *yaml.Node) bool { return d.Content[0].Kind == yaml.MappingNode }) {
		err = errors.New("there is no object in it")
	}
	return f, verr.Wrap(verr.Usage, what, err, "give a file with Kubernetes objects in YAML or JSON")
}

// Get is of [knob.Knob].
func (k manifestKnob) Get(m knob.Machine, t knob.Target) (knob.Reading, error) {
	_, _, s, err := k.load(m, t)
	if err != nil {
		return knob.Reading{}, err
	}
	return k.read(s), nil
}

// Plan is of [knob.Knob].
func (k manifestKnob) Plan(m knob.Machine, t knob.Target, value string) ([]setting.Write, error) {
	file, f, s, err := k.load(m, t)
	if err != nil {
		return nil, err
	}
	var pairs []settingChange
	if value == defaultValue {
		for _, key := range k.keys {
			pairs = append(pairs, settingChange{key: key, drop: true})
		}
	} else if pairs, err = k.pairs(s, value); err != nil {
		return nil, verr.Wrap(verr.Usage, fmt.Sprintf("cannot set it to %q in %s", value, t.File), err, knob.SeeValues)
	}
	for _, p := range pairs {
		if err := writePair(s, p); err != nil {
			return nil, verr.Wrap(verr.Failed, fmt.Sprintf("cannot change %s in %s", p.key, t.File), err, "change it by hand; nothing was written")
		}
	}
	return []setting.Write{{Setting: file, Value: setting.Value{Data: f.Text, Present: true}}}, nil
}

func writePair(s settings, p settingChange) error {
	if p.drop {
		return s.drop(p.key)
	}
	if now, there := s.get(p.key); there && now == p.text {
		return nil
	}
	if !yamledit.IsPlain(p.text) {
		return fmt.Errorf("%q has characters that no such setting has", p.text)
	}
	return s.set(p.key, p.text)
}

// Range is of [knob.Ranger].
func (k manifestKnob) Range(m knob.Machine, t knob.Target) ([]string, error) {
	now, err := k.Get(m, t)
	return slices.DeleteFunc(slices.Clone(k.trials), func(v string) bool { return v == now.Value }), err
}

// choiceKnob is a knob that is one setting with a few values: words of ours beside
// those of the file, "on" beside "true". The first text of a word is written,
// all of them are understood.
func choiceKnob(open func(manifest) (settings, error), key string, words ...[]string) manifestKnob {
	var trials []string
	for _, w := range words {
		trials = append(trials, w[0])
	}
	return manifestKnob{
		open: open, keys: []string{key}, trials: trials,
		read: func(s settings) knob.Reading {
			text, there := s.get(key)
			if !there {
				return knob.Reading{Value: defaultValue}
			}
			for _, w := range words {
				if slices.Contains(w[1:], text) {
					return knob.Reading{Value: w[0]}
				}
			}
			return knob.Reading{Value: text}
		},
		pairs: func(_ settings, value string) ([]settingChange, error) {
			for _, w := range words {
				if value == w[0] {
					return []settingChange{{key: key, text: w[1]}}, nil
				}
			}
			return nil, fmt.Errorf("want %s, or %s", strings.Join(trials, ", "), defaultValue)
		},
	}
}

// toggleKnob is a knob that is one setting which is true or false.
func toggleKnob(open func(manifest) (settings, error), key string) manifestKnob {
	return choiceKnob(open, key, []string{"on", "true"}, []string{"off", "false"})
}

// textKnob is a knob that is one setting with a number or other text that check
// lets through.
func textKnob(open func(manifest) (settings, error), key string, check func(string) error, trials ...string) manifestKnob {
	return manifestKnob{
		open: open, keys: []string{key}, trials: trials,
		read: func(s settings) knob.Reading {
			text, there := s.get(key)
			if !there {
				text = defaultValue
			}
			return knob.Reading{Value: text}
		},
		pairs: func(_ settings, value string) ([]settingChange, error) {
			return []settingChange{{key: key, text: value}}, check(value)
		},
	}
}

// annotated adds to what a knob reads.
func (k manifestKnob) annotated(by func(settings, knob.Reading) knob.Reading) manifestKnob {
	read := k.read
	k.read = func(s settings) knob.Reading { return by(s, read(s)) }
	return k
}

// withNote says the same thing about every reading.
func (k manifestKnob) withNote(note string) manifestKnob {
	return k.annotated(func(_ settings, r knob.Reading) knob.Reading {
		r.Note = note
		return r
	})
}

// isOn tells whether a setting is there and true.
func isOn(s settings, key string) bool {
	text, _ := s.get(key)
	return text == "true"
}
