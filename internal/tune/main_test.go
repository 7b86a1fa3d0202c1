package tune

import (
	"testing"

	"github.com/venturi-net/venturi/internal/testenv"
)

func TestMain(m *testing.M) {
	testenv.Main(m, testenv.Roles{
		// child plays sequences of changes, and is killed in them.
		"child": child,
	})
}
