package fleet

import (
	"errors"
	"testing"

	"github.com/venturi-net/venturi/internal/remote"
	"github.com/venturi-net/venturi/internal/verr"
)

// The same error of several machines is one; what has another reason stands apart.
func TestFailed(t *testing.T) {
	reply := func(machine, why string) Reply {
		r := Reply{Machine: remote.Machine{Name: machine}}
		if why != "" {
			r.Err = &commandError{verr.New(verr.Busy, "cannot set it", why, "wait")}
		}
		return r
	}
	lost := Reply{Machine: remote.Machine{Name: "d"}, Err: errors.New("lost d")}
	err := Failed([]Reply{reply("a", "no"), reply("b", ""), reply("c", "no"), lost, reply("e", "yes")})
	const want = "lost d\na, c: cannot set it: no (wait)\ne: cannot set it: yes (wait)"
	if err == nil || err.Error() != want || verr.Code(err) != verr.Busy {
		t.Errorf("failed with %v (code %d), want %s", err, verr.Code(err), want)
	}
	if err := Failed([]Reply{reply("a", "")}); err != nil {
		t.Errorf("failed with %v", err)
	}
}
