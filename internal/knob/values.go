package knob

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/venturi-net/venturi/internal/verr"
)

// On and Off are what a value is called where something is set, and where nothing is.
const (
	On  = "on"
	Off = "off"
)

// OnOff is what a setting has where it is on, and where it is off.
type OnOff struct{ On, Off string }

// Bit and Truth are those of most settings.
var (
	Bit   = OnOff{On: "1", Off: "0"}
	Truth = OnOff{On: "true", Off: "false"}
)

// Parse gives [On] or [Off] for what a setting has; other text stays as it is.
func (s OnOff) Parse(text string) string {
	switch text {
	case s.On:
		return On
	case s.Off:
		return Off
	}
	return text
}

// Text gives what a setting has for [On] or [Off]; another value stays as it is, and is not known.
func (s OnOff) Text(value string) (text string, known bool) {
	switch value {
	case On:
		return s.On, true
	case Off:
		return s.Off, true
	}
	return value, false
}

// Number checks that a value is a number of a range.
func Number(least, most int) func(string) error {
	return func(value string) error {
		n, err := strconv.Atoi(value)
		if err != nil || n < least || n > most {
			return fmt.Errorf("want a number from %d to %d", least, most)
		}
		return nil
	}
}

// OneOf checks that a value is one of some.
func OneOf(values ...string) func(string) error {
	return func(value string) error {
		if !slices.Contains(values, value) {
			return fmt.Errorf("want one of %s", strings.Join(values, ", "))
		}
		return nil
	}
}

// OtherThan gives the values of a list that are not the present one.
func OtherThan(values ...string) func(string) []string {
	return func(now string) (others []string) {
		for _, v := range values {
			if v != now {
				others = append(others, v)
			}
		}
		return others
	}
}

// ParseAssignments reads "a=1,b=2".
func ParseAssignments(value string) (map[string]string, error) {
	named := map[string]string{}
	for part := range strings.SplitSeq(value, ",") {
		word, v, ok := strings.Cut(part, "=")
		word, v = strings.TrimSpace(word), strings.TrimSpace(v)
		if _, twice := named[word]; !ok || twice || word == "" || v == "" {
			return nil, verr.New(verr.Usage, fmt.Sprintf("cannot understand %q", value), fmt.Sprintf("%q is none of its values, and not word=value with each word once", part), SeeValues)
		}
		named[word] = v
	}
	return named, nil
}

// BadNetns is the error of a namespace that cannot be found.
func BadNetns(t Target, err error) error {
	return verr.Wrap(verr.Usage, "cannot find network namespace "+t.Netns, err, "name it as ip does, by the file of it, or by a process in it")
}

// BadValue is the error of a value that makes none.
func BadValue(knob, value string, err error) error {
	return verr.Wrap(verr.Usage, fmt.Sprintf("cannot set %s to %q", knob, value), err, SeeValues)
}
