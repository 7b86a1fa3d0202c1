package tune

import (
	"os"
	"testing"

	"github.com/venturi-net/venturi/internal/guest"
	"github.com/venturi-net/venturi/internal/testenv"
)

func TestMain(m *testing.M) {
	// The cards are in a virtual machine, of which this binary is the first process.
	if code, ok := guest.Main(os.Args, os.Stderr); ok {
		os.Exit(code)
	}
	testenv.Main(m, testenv.Roles{
		// child plays sequences of changes, and is killed in them.
		"child": child,
	})
}
