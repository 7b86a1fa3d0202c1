package path_test

import (
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/path"
	"github.com/venturi-net/venturi/internal/verr"
)

func TestTable(t *testing.T) {
	for _, d := range path.Table {
		if d.Name == "" || d.Summary == "" || d.Like == "" || d.Up == nil {
			t.Errorf("driver %q does not say all that its users need", d.Name)
		}
		if strings.ContainsAny(d.Name, "./ ") || strings.ToLower(d.Name) != d.Name {
			t.Errorf("driver %q: the name becomes part of a namespace's name", d.Name)
		}
	}
}

func TestArms(t *testing.T) {
	arms, err := path.Arms([]string{"host", "routed", "vxlan", "routed", "host"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"host", "routed", "vxlan", "routed.2", "host.2"}
	for i, arm := range arms {
		if arm.Name != want[i] || arm.Index != i {
			t.Errorf("arm %d is %s with index %d, want %s", i, arm.Name, arm.Index, want[i])
		}
	}
}

func TestUnknownPath(t *testing.T) {
	_, err := path.Arms([]string{"host", "vxlam"})
	if verr.Code(err) != verr.Usage {
		t.Fatalf("Arms = %v, want an error with code %d", err, verr.Usage)
	}
	for _, name := range path.Names() {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("the error does not name %s: %v", name, err)
		}
	}
}

func TestTooManyPaths(t *testing.T) {
	names := make([]string, path.MaxArms+1)
	for i := range names {
		names[i] = "host"
	}
	if _, err := path.Arms(names); verr.Code(err) != verr.Usage {
		t.Errorf("Arms of %d = %v, want an error with code %d", len(names), err, verr.Usage)
	}
}
