package audit_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/fastpath/audit"
	"github.com/venturi-net/venturi/internal/testenv"
)

// BenchmarkServices tells what an audit takes where kube-proxy has written the rules of 10,000 Services with
// two endpoints each, and with nftables those of as many that have none.
func BenchmarkServices(b *testing.B) {
	for _, mode := range []struct {
		name, rules string
		load        []string
	}{
		{"iptables", servicesOfIPTables(10_000), []string{"iptables-nft-restore"}},
		{"nftables", servicesOfNFTables(10_000), []string{"nft", "-f", "-"}},
	} {
		b.Run(mode.name, func(b *testing.B) {
			n := testenv.Netns(b)
			testenv.Must(b, testenv.Load(b, n, mode.rules, mode.load[0], mode.load[1:]...))
			for b.Loop() {
				testenv.InNetns(b, n.Path(), func() error {
					is, err := audit.Ruleset(audit.Overlay{})
					if err == nil && is.PerPacket != "" {
						err = errors.New(is.PerPacket)
					}
					return err
				})
			}
		})
	}
}

// serviceIP is the address of a Service.
func serviceIP(i int) string { return fmt.Sprintf("10.96.%d.%d", i/250, 1+i%250) }

func servicesOfIPTables(number int) string {
	chains, rules := new(strings.Builder), new(strings.Builder)
	for i := range number {
		fmt.Fprintf(chains, ":KUBE-SVC-%d - [0:0]\n", i)
		fmt.Fprintf(rules, "-A KUBE-SERVICES -d %s/32 -p tcp -m comment --comment \"ns/svc-%d cluster IP\" -m tcp --dport 80 -j KUBE-SVC-%d\n", serviceIP(i), i, i)
		for end := range 2 {
			fmt.Fprintf(chains, ":KUBE-SEP-%d-%d - [0:0]\n", i, end)
			fmt.Fprintf(rules, "-A KUBE-SVC-%d -m statistic --mode random --probability 0.5 -j KUBE-SEP-%d-%d\n", i, i, end)
			fmt.Fprintf(rules, "-A KUBE-SEP-%d-%d -p tcp -m tcp -j DNAT --to-destination 10.244.%d.%d:80\n", i, end, i/250, 1+i%250)
		}
	}
	return "*nat\n:PREROUTING ACCEPT [0:0]\n:KUBE-SERVICES - [0:0]\n" + chains.String() + "-A PREROUTING -j KUBE-SERVICES\n" + rules.String() +
		"COMMIT\n*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\nCOMMIT\n"
}

func servicesOfNFTables(number int) string {
	chains, services, without := new(strings.Builder), new(strings.Builder), new(strings.Builder)
	for i := range number {
		fmt.Fprintf(services, "%s . tcp . 80 : goto service-%d,\n", serviceIP(i), i)
		fmt.Fprintf(without, "%s . tcp . 81 : goto rejected,\n", serviceIP(i))
		for end := range 2 {
			fmt.Fprintf(chains, "chain endpoint-%d-%d { meta l4proto tcp dnat to 10.244.%d.%d:80; }\n", i, end, i/250, 1+i%250)
		}
		fmt.Fprintf(chains, "chain service-%d { numgen random mod 2 vmap { 0 : goto endpoint-%d-0, 1 : goto endpoint-%d-1 }; }\n", i, i, i)
	}
	return "table ip kube-proxy {\n" + chains.String() + "map service-ips { type ipv4_addr . inet_proto . inet_service : verdict; elements = {\n" + services.String() + "} }\n" +
		"map no-endpoint-services { type ipv4_addr . inet_proto . inet_service : verdict; elements = {\n" + without.String() + "} }\n" +
		"chain rejected { reject; }\nchain endpoints-check { ip daddr . meta l4proto . th dport vmap @no-endpoint-services; }\n" +
		"chain services { ip daddr . meta l4proto . th dport vmap @service-ips; }\n" +
		"chain nat-prerouting { type nat hook prerouting priority -100; jump services; }\n" +
		"chain forward { type filter hook forward priority -110; ct state new jump endpoints-check; }\n}\n"
}
