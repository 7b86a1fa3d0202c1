package fleet_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/fleet"
)

// A machine keeps its changes when it is told to, and in time; whatever else it hears, or
// does not, it undoes them.
func TestSettle(t *testing.T) {
	silent, _ := io.Pipe()
	defer silent.Close()
	inTime := func() (bool, error) { return false, nil }
	for name, c := range map[string]struct {
		in      io.Reader
		until   time.Duration
		expired func() (bool, error)
		want    string // in the error; empty: the changes stay
	}{
		"keep":           {strings.NewReader(fleet.KeepLine), time.Minute, inTime, ""},
		"another word":   {strings.NewReader("yes\n"), time.Minute, inTime, "another machine"},
		"end of input":   {strings.NewReader(""), time.Minute, inTime, "another machine"},
		"no word":        {silent, time.Millisecond, inTime, "did not say in time"},
		"lease is over":  {strings.NewReader(fleet.KeepLine), time.Minute, func() (bool, error) { return true, nil }, "another machine"},
		"journal failed": {strings.NewReader(fleet.KeepLine), time.Minute, func() (bool, error) { return false, errors.New("torn") }, "torn"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			err := fleet.Settle(t.Context(), c.in, &out, time.Now().Add(c.until), c.expired)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if out.String() != fleet.ReadyLine {
				t.Errorf("said %q", out.String())
			}
		})
	}
}
