package kernel_test

import (
	"testing"

	"github.com/venturi-net/venturi/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m, nil) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
