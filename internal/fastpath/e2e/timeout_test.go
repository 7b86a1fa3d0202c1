package e2e

import (
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/fastpathtest"
	"github.com/venturi-net/venturi/internal/testenv/traffic"
)

// A flow whose connection lives as long as a rule says is left to the network, which
// knows for how long.
func TestFastPathLeavesTimeoutPolicies(t *testing.T) {
	requireFastPath(t)
	requireTools(t)
	l := testenv.Lab(t, lab.Options{Paths: basicFastPaths})
	for _, m := range l.Machines {
		shell(t, m, nil, `nft 'table ip lives {
			ct timeout short { protocol udp; l3proto ip; policy = { unreplied : 20, replied : 20 }; };
			chain c { type filter hook prerouting priority 0; ct state new udp dport 7000 ct timeout set "short"; };
		}'`)
	}
	for _, arm := range l.Arms {
		t.Run(arm.Name, func(t *testing.T) {
			// Others are carried.
			fastpathtest.WithFlow(t, arm, func(exchange func(time.Duration) error) { fastpathtest.WaitCarried(t, arm, exchange) })
			server, clients := serveAt(t, arm, 7000), traffic.ListenUDP(t, arm.Client())
			defer clients.Close()
			before := fastpathtest.CarriedPackets(t, arm)
			for range 200 {
				testenv.Must(t, exchangeWith(clients, server))
			}
			for i, now := range fastpathtest.CarriedPackets(t, arm) {
				if now != before[i] {
					t.Errorf("machines have carried %v, and %v before", fastpathtest.CarriedPackets(t, arm), before)
					break
				}
			}
		})
	}
}
