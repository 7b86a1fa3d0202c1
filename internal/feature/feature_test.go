package feature

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/verr"
)

func TestClassify(t *testing.T) {
	for _, c := range []struct {
		err  error
		want Answer
	}{
		{nil, Yes},
		{fmt.Errorf("add vxlan: %w", syscall.EOPNOTSUPP), No},
		{fmt.Errorf("write sysctl: %w", os.ErrNotExist), No},
		{fmt.Errorf("make a namespace: %w", syscall.EPERM), Unknown},
		{errors.New("something else"), Unknown},
	} {
		if got := classify(c.err); got != c.want {
			t.Errorf("classify(%v) = %v, want %v", c.err, got, c.want)
		}
	}
}

func TestRequireSaysWhatIsMissing(t *testing.T) {
	p := &Probe{Name: "test device", Get: "load it"}
	answers.Store(p.Name, finding{answer: No, reason: syscall.EOPNOTSUPP})
	err := Require("cannot raise path test", p)
	var told *verr.Error
	if !errors.As(err, &told) || told.Code != verr.Missing || told.Hint != "load it"+OtherKernel {
		t.Fatalf("Require = %v, want an error for a user with code %d", err, verr.Missing)
	}
	if err := RequireHere("cannot plan", p); !errors.As(err, &told) || told.Code != verr.Missing || told.Hint != "load it" {
		t.Errorf("RequireHere = %v, want one that names no virtual machine", err)
	}
}

// What could not be told is asked again, because the next time may be better.
func TestUnknownIsNotKept(t *testing.T) {
	calls := 0
	p := &Probe{Name: "fickle", Try: func(*netcfg.Namespace) error { calls++; return errors.New("no idea") }}
	for range 2 {
		if answer, err := p.Ask(); answer != Unknown || err == nil {
			t.Fatalf("Ask = %v, %v, want could not tell and why", answer, err)
		}
	}
	if os.Geteuid() == 0 && calls != 2 {
		t.Errorf("the probe tried %d times, want 2", calls)
	}
	if err := Require("cannot", p); err != nil {
		t.Errorf("Require = %v, want nil: it could not tell", err)
	}
}
