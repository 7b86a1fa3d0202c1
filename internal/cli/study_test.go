package cli

import (
	"testing"

	"github.com/venturi-net/venturi/internal/study"
)

// The study file of the help is one.
func TestStudyExample(t *testing.T) {
	s, err := study.Parse("help", []byte(studyExample))
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Paths) != 3 || len(s.Wires) != 1 || len(s.Loads) != 2 || len(s.Tables) != 1 {
		t.Errorf("%+v", s)
	}
}
