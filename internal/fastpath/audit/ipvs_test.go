package audit_test

import (
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/fastpath/audit"
	"github.com/venturi-net/venturi/internal/testenv"
)

// IPVS is found by its services, of either version of IP, or by kube-proxy's device for it, in the namespace that is
// looked at.
func TestHasIPVS(t *testing.T) {
	const head = "IP Virtual Server version 1.2.1 (size=4096)\nProt LocalAddress:Port Scheduler Flags\n  -> RemoteAddress:Port Forward Weight ActiveConn InActConn\n"
	for services, want := range map[string]bool{
		"": false, head: false,
		head + "UDP  0A60000A:0035 rr  \n  -> 0AF40103:1E61      Masq    1      0          0         \n":                     true,
		head + "TCP  [fd00:0060:0000:0000:0000:0000:0000:000a]:0035 rr \n":                                                   true,
		head + strings.Repeat("TCP  0A60000A:01BB rr  \n  -> 0AF40103:1E61      Masq    1      0          0         \n", 99): true,
	} {
		if is := audit.ListsService(strings.NewReader(services)); is != want {
			t.Errorf("%.200q: it has services: %v, want %v", services, is, want)
		}
	}
	n := testenv.Netns(t)
	for _, want := range []bool{false, true} {
		if want {
			testenv.Shell(t, n.Path(), "ip link add kube-ipvs0 type bridge")
		}
		testenv.InNetns(t, n.Path(), func() error {
			if is := audit.HasIPVS(); is != want {
				t.Errorf("with kube-proxy's device %v: %v", want, is)
			}
			return nil
		})
	}
}
