package display

import (
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/path"
)

// The place to look into is one of the lab's, whatever the last path is.
func TestInside(t *testing.T) {
	arm := func(name, namespace string) lab.Arm {
		ends := []host.Endpoint{{Machine: "m1", Namespace: namespace}}
		return lab.Arm{Name: name, Ends: path.Ends{ends, ends}}
	}
	for _, c := range []struct {
		want string
		arms []lab.Arm
	}{
		{"m1", []lab.Arm{arm("host", "/ns/m1")}},
		{"m1/vxlan", []lab.Arm{arm("host", "/ns/m1"), arm("vxlan", "/ns/m1.vxlan"), arm("attach", "/proc/7/ns/net")}},
		{"m1", []lab.Arm{arm("attach", "/proc/7/ns/net")}},
	} {
		l := &lab.Lab{Arms: c.arms, Machines: []lab.Machine{{Name: "m1", Namespace: "/ns/m1",
			Pods:     []host.Named{{Name: "m1/vxlan", Path: "/ns/m1.vxlan"}},
			Attached: []host.Named{{Name: "m1/attach", Path: "/proc/7/ns/net"}}}}}
		if got := enterNamespace(l); got != c.want {
			t.Errorf("look into %s, want %s", got, c.want)
		}
	}
}

// What a list cannot know, it says: nobody outside of a container is seen from inside of it.
func TestLabsOutOfSight(t *testing.T) {
	for _, partial := range []bool{false, true} {
		var out strings.Builder
		if err := PrintLabs(&out, []lab.Info{{Name: "lab", Status: lab.StatusDead, Partial: partial}}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(out.String(), "cannot see processes outside"); got != partial {
			t.Errorf("partial %v:\n%s", partial, &out)
		}
	}
}
