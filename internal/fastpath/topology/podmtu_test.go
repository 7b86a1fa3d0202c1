package topology_test

import (
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/fastpath/audit"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/testenv"
)

// The MTU to a pod is the smallest on the way, up to the pod's own end of its link, whose changes
// send no notification to the host.
func TestPodSize(t *testing.T) {
	for name, c := range map[string]struct {
		outside, inside string // commands on the host, and in the pod
		want            int
	}{
		"the bridge and the link": {want: 1450},
		"the link":                {outside: "ip link set p0 mtu 1300", want: 1300},
		"the bridge":              {outside: "ip link set br0 mtu 1290", want: 1290},
		"the route":               {outside: "ip route replace 10.0.1.0/24 dev br0 mtu 1280", want: 1280},
		"another route":           {outside: "ip route add 10.0.3.0/24 dev br0 mtu 1270", want: 1450},
		"the pod":                 {inside: "ip link set eth0 mtu 1260", want: 1260},
	} {
		t.Run(name, func(t *testing.T) {
			m, pod := machineAndPod(t, strings.ReplaceAll(overlay, "OPTIONS", "")+c.outside)
			before := topologyOf(t, m).Pods
			testenv.Shell(t, pod, "true; "+c.inside)
			moved := false
			testenv.InNetns(t, m, func() error {
				s, err := topology.OpenPoller(audit.IPv4)
				if err != nil {
					return err
				}
				defer s.Close()
				moved = s.PodsChanged(before)
				return nil
			})
			if moved != (c.inside != "") {
				t.Errorf("the pod's own end has changed: %v", moved)
			}
			if now := topologyOf(t, m).Pods; len(now) != 1 || now[0].MTU != c.want {
				t.Errorf("pods %+v, want one that takes %d bytes", now, c.want)
			}
		})
	}
}
