package setting

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"
)

// Setting is one value of a machine that can be read and written whole: a sysctl
// of a namespace, the rings of a device, a file. It says all that is needed to
// find the value again, by another process or another version of this program.
type Setting struct {
	Backend string `json:"store"`          // which kind of value, the name of a [Backend]
	Scope   Scope  `json:"place,omitzero"` // where
	Key     string `json:"key,omitempty"`  // which one there, in the words of the backend

	awayIn string // a card's: the name of the namespace that it was moved to; empty: none is known
}

// String is the setting as a person reads it: "sysctl net/core/somaxconn in /run/netns/a".
func (s Setting) String() string {
	text := s.Backend
	if s.Key != "" {
		text += " " + s.Key
	}
	if scope := s.Scope.String(); scope != "" {
		text += " " + scope
	}
	return text
}

// ID is equal for two settings that are the same value, whatever they are called by now.
func (s Setting) ID() string {
	text, err := json.Marshal([]any{s.Backend, s.Scope.identity(), s.Key})
	if err != nil {
		panic(err) // strings and numbers always can be written
	}
	return string(text)
}

// Value is what a setting holds, byte for byte. The zero Value is that of a setting
// that may be absent and is, such as a file that does not exist.
type Value struct {
	Data    []byte
	Present bool

	// Mode is how a file is made anew that was removed; nil: as any new one. Two
	// values that differ in this alone are the same.
	Mode *FileMode
}

// Text makes a Value of text.
func Text(s string) Value { return Value{Data: []byte(s), Present: true} }

// Equal tells whether two values are the same, byte for byte.
func (v Value) Equal(w Value) bool { return v.Present == w.Present && string(v.Data) == string(w.Data) }

func (v Value) String() string {
	if !v.Present {
		return "(absent)"
	}
	return string(v.Data)
}

// encoded is how a value that is not text alone is written as JSON.
type encoded struct {
	Text   string    `json:"text,omitempty"`
	Base64 string    `json:"base64,omitempty"`
	Mode   *FileMode `json:"made,omitempty"`
}

// MarshalJSON writes null for an absent value, a string for text, and an object
// for everything else: text, or base64 of what is none, and how its file is made.
func (v Value) MarshalJSON() ([]byte, error) {
	text := utf8.Valid(v.Data)
	switch {
	case !v.Present:
		return []byte("null"), nil
	case text && v.Mode == nil:
		return json.Marshal(string(v.Data))
	case text:
		return json.Marshal(encoded{Text: string(v.Data), Mode: v.Mode})
	}
	return json.Marshal(encoded{Base64: base64.StdEncoding.EncodeToString(v.Data), Mode: v.Mode})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (v *Value) UnmarshalJSON(text []byte) error {
	*v = Value{}
	if string(text) == "null" {
		return nil
	}
	var s string
	if json.Unmarshal(text, &s) == nil {
		*v = Text(s)
		return nil
	}
	var e encoded
	if err := UnmarshalStrict(text, &e); err != nil {
		return fmt.Errorf("read value: %w", err)
	}
	data, err := base64.StdEncoding.DecodeString(e.Base64)
	if err != nil {
		return fmt.Errorf("read value: %w", err)
	}
	*v = Value{Data: append([]byte(e.Text), data...), Present: true, Mode: e.Mode}
	return nil
}

// UnmarshalStrict reads JSON, and refuses what a later version may have added: it could mean another value,
// or another scope. What could be read is there with the error, too.
func UnmarshalStrict(text []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(to)
}

// Write is one write that somebody wants: a setting, and what it shall hold.
type Write struct {
	Setting Setting `json:"cell"`
	Value   Value   `json:"value"`
}

// Backend is one kind of settings, such as the sysctls. Only Name, Read and Write
// must be there. One write is one call of the kernel, or a file renamed into its
// place: nobody ever finds half of it, but where Halfway says what that looks like.
type Backend struct {
	Name string

	// Read gives what the setting holds. What it gives, Write takes, and brings back
	// exactly: where the kernel shows a value in other words than it takes it
	// ("always [madvise] never"), Read translates.
	Read func(Setting) (Value, error)

	// Write makes the setting hold the value. That the kernel took it is for the
	// caller to see, by Read.
	Write func(Setting, Value) error

	// Replace is Write for a setting that others write to as well: it writes nothing, and
	// says [ErrChanged], where the setting does not hold old any more. Nil: this kind cannot
	// look and write in one step.
	Replace func(s Setting, old, v Value) error

	// Matches tells whether found is what asked becomes when it is written: the
	// kernel cleans white space, or rounds up to a power of two. Nil: only what is
	// equal is alike.
	Matches func(s Setting, asked, found Value) bool

	// Equivalent tells whether a setting that holds found need not be written to hold asked:
	// it says the same in other words, and nothing was rounded. Nil: only what is
	// equal is the same.
	Equivalent func(s Setting, asked, found Value) bool

	// PartialWrite tells whether found is what a write of asked leaves that was killed
	// in the middle. Nil: a write has no middle.
	PartialWrite func(asked, found Value) bool

	// Persistent: the values outlive a reboot.
	Persistent bool

	// Installed: the values are in files, or with the service manager, of the installation
	// that is in sight. Another container has others by the same names.
	Installed bool

	// SideEffects lists the other settings that a write to this one may change too, such
	// as what a driver forgets when its rings are made anew. Nil: none.
	SideEffects func(Setting) ([]Setting, error)

	// Settle is how long what a write disturbs takes to calm down: what is measured earlier is
	// of the disturbance. Zero: hardly any time.
	Settle time.Duration
	// SettleOf is the same of single keys that take longer than the others.
	SettleOf map[string]time.Duration

	// Sweep removes what a write that was killed half-way left behind, such as a
	// file that did not come to its name. Nil: nothing is ever left.
	Sweep func(Setting) error
}

// ErrChanged is wrapped by the error of replacing a value that is another one by now.
var ErrChanged = errors.New("somebody else has changed it just now, and nothing was written")

// Settings reads and writes settings of the backends in a table.
type Settings struct {
	backends map[string]Backend
	scope    Scope // of which values are reached faster; zero: none
}

// NewSettings makes Settings of backends; no two of them may have the same name.
func NewSettings(backends ...Backend) *Settings {
	s := &Settings{backends: map[string]Backend{}}
	for _, b := range backends {
		if _, twice := s.backends[b.Name]; twice {
			panic("two backends are called " + b.Name)
		}
		s.backends[b.Name] = b
	}
	return s
}

func (s *Settings) backend(setting Setting) (Backend, error) {
	b, ok := s.backends[setting.Backend]
	if !ok {
		return b, fmt.Errorf("%s: this version knows no backend %q", setting, setting.Backend)
	}
	return b, nil
}

// Read gives what a setting holds.
func (s *Settings) Read(setting Setting) (Value, error) {
	b, err := s.backend(setting)
	if err != nil {
		return Value{}, err
	}
	v, err := b.Read(s.resolve(setting))
	if err != nil {
		return Value{}, fmt.Errorf("read %s: %w", setting, err)
	}
	return v, nil
}

// Write writes a setting. Only package journal calls it, which knows the old value
// to be on disk.
func (s *Settings) Write(setting Setting, v Value) error {
	b, err := s.backend(setting)
	if err != nil {
		return err
	}
	if err := b.Write(s.resolve(setting), v); err != nil {
		return fmt.Errorf("write %s: %w", setting, err)
	}
	return nil
}

// Replace writes a setting that held old when it was read; where its kind can tell, only if it
// still does. It is for package journal, as Write is. Error: [ErrChanged].
func (s *Settings) Replace(setting Setting, old, v Value) error {
	if !s.Replaces(setting) {
		return s.Write(setting, v)
	}
	if err := s.backends[setting.Backend].Replace(s.resolve(setting), old, v); err != nil {
		return fmt.Errorf("write %s: %w", setting, err)
	}
	return nil
}

// Replaces tells whether a write of this setting leaves exactly what was asked for, and
// takes no other's place: what else is found after it, somebody else has written since.
func (s *Settings) Replaces(setting Setting) bool {
	return s.backends[setting.Backend].Replace != nil
}

// Matches tells whether found is what asked becomes in this setting.
func (s *Settings) Matches(setting Setting, asked, found Value) bool {
	if asked.Equal(found) {
		return true
	}
	b, err := s.backend(setting)
	return err == nil && b.Matches != nil && asked.Present && found.Present && b.Matches(setting, asked, found)
}

// Equivalent tells whether a setting that holds found has what is asked for already: the
// same value, if perhaps in other words. What a write would become by rounding is
// [Settings.Matches], and not the same.
func (s *Settings) Equivalent(setting Setting, asked, found Value) bool {
	if asked.Equal(found) {
		return true
	}
	b, err := s.backend(setting)
	return err == nil && b.Equivalent != nil && asked.Present && found.Present && b.Equivalent(setting, asked, found)
}

// PartialWrite tells whether found is what a write of asked to this setting leaves that
// was killed in the middle.
func (s *Settings) PartialWrite(setting Setting, asked, found Value) bool {
	b, err := s.backend(setting)
	return err == nil && b.PartialWrite != nil && asked.Present && found.Present && b.PartialWrite(asked, found)
}

// Persistent tells whether a setting's value outlives a reboot.
func (s *Settings) Persistent(setting Setting) bool {
	b, err := s.backend(setting)
	return err != nil || b.Persistent
}

// Installed tells whether a setting's value is of the installation that is in sight.
func (s *Settings) Installed(setting Setting) bool { return s.backends[setting.Backend].Installed }

// SideEffects lists the other settings that a write to this one may change.
func (s *Settings) SideEffects(setting Setting) ([]Setting, error) {
	b, err := s.backend(setting)
	if err != nil || b.SideEffects == nil {
		return nil, err
	}
	settings, err := b.SideEffects(s.resolve(setting))
	for i := range settings {
		settings[i].Scope.entered = nil // they outlive it
	}
	return settings, err
}

// Settle is how long what a write to a setting disturbs takes to calm down.
func (c *Settings) Settle(cell Setting) time.Duration {
	s := c.backends[cell.Backend]
	return max(s.Settle, s.SettleOf[cell.Key])
}

// Sweep removes what a write to a setting that was killed half-way left behind.
func (s *Settings) Sweep(setting Setting) error {
	b, err := s.backend(setting)
	if err != nil || b.Sweep == nil {
		return err
	}
	return b.Sweep(setting)
}
