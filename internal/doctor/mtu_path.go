package doctor

import (
	"fmt"

	"github.com/venturi-net/venturi/internal/host"
)

var mtuPath = Rule{
	Facts: Facts{
		Code:     "mtu-path",
		Title:    "Full packets to a peer vanish on the path",
		Severity: Error,
		Looks:    "datagrams to each --peer that may not be fragmented (UDP port 33434): small ones are answered, three of the route's MTU are not",
		Effect:   Impact{"connections hang once they send full packets: the device that drops them does not say so", "kernel: path MTU discovery; mismatches in Calico issues 8868 and 5575", "B"},
		Do:       "find the device with the smaller MTU on the path, or the filter that drops ICMP messages: ping -M do -s SIZE",
	},
	Check: func(v *View) (all []Finding) {
		for _, w := range v.Routes {
			if w.Probe != host.ProbeVanishes {
				continue
			}
			all = append(all, finding(w.Netns, nil,
				Evidence{"datagrams to " + w.Peer, fmt.Sprintf("those of %d bytes are not answered, small ones are", w.MTU)},
				Evidence{"route to " + w.Peer, fmt.Sprintf("MTU %d by %s", w.MTU, w.Device)}))
		}
		return all
	},
}
