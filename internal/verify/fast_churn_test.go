package verify_test

import (
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/verify"
)

// The check runs to its end; whether this machine is quiet enough for its bars is not
// asked here.
func TestChurn(t *testing.T) {
	testenv.Root(t)
	c := verify.DefaultChurn()
	c.For, c.Flows = 200*time.Millisecond, []int{100}
	var out strings.Builder
	err := c.Check(t.Context(), &out, compare.Host{LabName: testenv.LabName(), Program: testenv.Program(t)})
	for _, want := range []string{"vxlan        beside", "vxlan+fast   beside", "vxlan+fast   of", "nothing is lost"} {
		if !strings.Contains(out.String(), want) {
			t.Fatalf("there is no %q in\n%s%v", want, &out, err)
		}
	}
}
