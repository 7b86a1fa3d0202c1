package host_test

import (
	"os"
	"testing"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/testenv"
)

// Pages of a program's file are no memory of its process any more, and it goes on.
func TestReleaseProgramFile(t *testing.T) {
	shared := func() int64 {
		all, own, err := host.Reader{}.ResidentMemory(os.Getpid())
		testenv.Must(t, err)
		return all - own
	}
	before := shared()
	testenv.Must(t, host.ReleaseProgramFile())
	if after := shared(); after >= before {
		t.Errorf("%d bytes of the file are memory of the process, %d were before", after, before)
	}
}
