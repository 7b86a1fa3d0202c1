package lab

import (
	"fmt"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/verr"
)

// A network that has no address for each machine, or such as no machine can have, is refused.
func TestParseNet(t *testing.T) {
	for _, c := range []struct {
		text     string
		machines int
		want     string // the network, or what is wrong
	}{
		{"", 2, wireNet.String()},
		{"10.9.0.7/24", 250, "10.9.0.0/24"},
		{"192.168.5.0/29", 6, "192.168.5.0/29"},
		{"192.168.5.0/29", 7, "addresses for 6 machines, and 7 have"},
		{"", 255, "addresses for 254 machines"},
		{"192.168.5.0/30", 2, "/8 to /29"},
		{"fd00::/64", 2, "/8 to /29"},
		{"10.244.1.0/24", 2, "used for pods"},
		{"127.1.0.0/24", 2, "loopback"},
		{"169.0.0.0/8", 2, "link-local"},
		{"239.1.0.0/16", 2, "multicast"},
		{"0.0.0.0/8", 2, "no address"},
		{"here", 2, "here"},
	} {
		p, err := ParseNet(c.text, c.machines)
		got := fmt.Sprint(p)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, c.want) || err != nil && verr.Code(err) != verr.Usage {
			t.Errorf("%q for %d machines: %v, %v, want %q", c.text, c.machines, p, err, c.want)
		}
	}
}
