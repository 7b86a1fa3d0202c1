package knob_test

import (
	"testing"

	"github.com/venturi-net/venturi/internal/knob"
)

// What is neither on nor off stays as it is, both ways.
func TestOnOff(t *testing.T) {
	for value, want := range map[string]string{"on": "0", "off": "1", "2": "2", "default": "default", "": ""} {
		s := knob.OnOff{On: "0", Off: "1"}
		text, known := s.Text(value)
		if text != want || known != (value == "on" || value == "off") {
			t.Errorf("%q is written as %q (known: %t), want %q", value, text, known, want)
		}
		if got := s.Parse(text); got != value {
			t.Errorf("%q is read as %q", value, got)
		}
	}
}
