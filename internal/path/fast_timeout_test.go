package path_test

import (
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
)

// A flow whose connection lives as long as a rule says is left to the network, which
// knows for how long.
func TestFastPathLeavesTimeoutPolicies(t *testing.T) {
	needsFast(t)
	needsPrograms(t)
	l := testenv.Lab(t, lab.Options{Paths: fastPathsOf})
	for _, m := range l.Machines {
		shell(t, m, nil, `nft 'table ip lives {
			ct timeout short { protocol udp; l3proto ip; policy = { unreplied : 20, replied : 20 }; };
			chain c { type filter hook prerouting priority 0; ct state new udp dport 7000 ct timeout set "short"; };
		}'`)
	}
	for _, arm := range l.Arms {
		t.Run(arm.Name, func(t *testing.T) {
			// Others are carried.
			talk(t, arm, func(exchange func(time.Duration) error) { untilCarried(t, arm, exchange) })
			server, clients := serveAt(t, arm, 7000), listen(t, arm.From())
			defer clients.Close()
			before := carried(t, arm)
			for range 200 {
				must(t, exchangeWith(clients, server))
			}
			for i, now := range carried(t, arm) {
				if now != before[i] {
					t.Errorf("machines have carried %v, and %v before", carried(t, arm), before)
					break
				}
			}
		})
	}
}
