package path

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Option is one thing that a user may say about a path behind its name, as in
// vxlan:vni=42,csum=off.
type Option struct {
	Name    string
	Value   string // what may be given, for --help: "1..16777215", "on|off"
	Default string
	// Required tells that it has to be given: there is no default.
	Required bool
	Help     string
	// read gives the normal form of what a user wrote, or says what is wrong.
	read func(text string) (string, error)
}

// number is an option that takes a whole number.
func number(name string, least, most int, preset, help string) Option {
	return Option{
		Name: name, Value: fmt.Sprintf("%d..%d", least, most), Default: preset, Help: help,
		read: func(text string) (string, error) {
			n, err := strconv.Atoi(text)
			if err != nil || n < least || n > most {
				return "", fmt.Errorf("%s is %q, not a number from %d to %d", name, text, least, most)
			}
			return strconv.Itoa(n), nil // others take 010 for eight
		},
	}
}

// choice is an option that takes one of a few words.
func choice(name string, words []string, preset, help string) Option {
	return Option{
		Name: name, Value: strings.Join(words, "|"), Default: preset, Help: help,
		read: func(text string) (string, error) {
			if !slices.Contains(words, text) {
				return "", fmt.Errorf("%s is %q, not one of %s", name, text, strings.Join(words, ", "))
			}
			return text, nil
		},
	}
}

// onOff is an option that switches something.
func onOff(name, preset, help string) Option {
	return choice(name, []string{"on", "off"}, preset, help)
}

// mtuName is the option that every driver has which lays a path of its own.
const mtuName = "mtu"

// mtu is that option. Its default is the most that the wire leaves.
var mtu = number(mtuName, minMTU, maxMTU, "", "MTU of the pods, bytes; the largest that fits the wire when not given")

const (
	minMTU = 68 // that IPv4 asks of every link
	maxMTU = 65535
)

// Values are the options of one arm: of every option of its driver the value
// that was given, or the default.
type Values map[string]string

// Int is the value of a number; 0 where it has none.
func (v Values) Int(name string) int {
	n, _ := strconv.Atoi(v[name]) // checked when it was read
	return n
}

// Enabled tells whether a switch is on.
func (v Values) Enabled(name string) bool { return v[name] == "on" }
