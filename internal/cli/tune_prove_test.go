package cli

import (
	"testing"

	"github.com/venturi-net/venturi/internal/verr"
)

// The machine's own network is touched only where it is named.
func TestProofMayTouch(t *testing.T) {
	for _, c := range []struct {
		path string
		host bool
		want int
	}{
		{"vxlan", false, verr.OK},
		{"attach:from=ns:a,to=pid:1", false, verr.OK},
		{"attach:from=self,to=ns:a", false, verr.Usage},
		{"attach:from=ns:a,to=self", false, verr.Usage},
		{"attach:from=self,to=ns:a", true, verr.OK},
	} {
		p := proving{path: c.path}
		if err := p.mayTouch(c.host); verr.Code(err) != c.want {
			t.Errorf("%s, host %v: %v", c.path, c.host, err)
		}
	}
}
