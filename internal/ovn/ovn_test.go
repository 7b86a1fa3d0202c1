package ovn_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/ovn"
	"github.com/venturi-net/venturi/internal/ovs"
	"github.com/venturi-net/venturi/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m, nil) }

// place gives a place whose daemons end with the test, and the list of them.
func place(t *testing.T) (ovs.Runtime, *[]*netcfg.Child) {
	t.Helper()
	return testenv.OVSRuntime(t, slices.Concat(ovs.Needs(), ovn.Needs())...)
}

func central(t *testing.T, p ovs.Runtime, n ovn.Network) *ovn.Central {
	t.Helper()
	c, err := ovn.StartCentral(t.Context(), p, n)
	testenv.Must(t, err)
	t.Cleanup(c.Close)
	return c
}

func run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return string(out)
}

func pods(n int) []ovn.Port {
	var ports []ovn.Port
	for i := range n {
		ports = append(ports, ovn.Port{
			Name: fmt.Sprintf("m%d.pod-0", i+1),
			MAC:  net.HardwareAddr{0x0a, 0, 0, 0, 0, byte(i)},
			Addr: netip.AddrFrom4([4]byte{10, 244, 0, byte(i + 2)}),
		})
	}
	return ports
}

// What is written is what OVN's own tool reads, and ovn-northd makes of it
// what it should.
func TestWrite(t *testing.T) {
	vip := netip.MustParseAddrPort("10.96.0.1:80")
	one, two := netip.MustParseAddrPort("10.244.0.2:8080"), netip.MustParseAddrPort("10.244.0.3:8080")
	tests := []struct {
		name       string
		network    ovn.Network
		show       []string // are in the output of ovn-nbctl show
		absent     []string
		balancers  []string // are in the list of load balancers
		translated string   // is in a logical flow
	}{
		{
			name: "overlay with services",
			network: ovn.Network{
				Ports: pods(2),
				Router: &ovn.Router{
					MAC: net.HardwareAddr{0x0a, 0, 0, 0, 1, 0}, Addr: netip.MustParsePrefix("10.244.0.1/16"),
				},
				Services: map[netip.AddrPort][]netip.AddrPort{vip: {one, two}},
			},
			show: []string{
				"(ovn-default)", "port m1.pod-0", `addresses: ["0a:00:00:00:00:01 10.244.0.3"]`,
				"type: router", "router-port: ovn-cluster-ovn-default", "(ovn-cluster)",
				`mac: "0a:00:00:00:01:00"`, `networks: ["10.244.0.1/16"]`,
			},
			absent:     []string{"localnet"},
			balancers:  []string{"cluster-tcp-load", "tcp", "10.96.0.1:80", "10.244.0.2:8080,10.244.0.3:8080"},
			translated: "ip4.dst == 10.96.0.1",
		},
		{
			name:       "underlay",
			network:    ovn.Network{Ports: pods(3), Localnet: &ovn.Localnet{Name: "provider", VLAN: 4094}},
			show:       []string{"port localnet.ovn-default", "tag: 4094", `addresses: ["unknown"]`, "port m3.pod-0"},
			absent:     []string{"router"},
			translated: "0a:00:00:00:00:02",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p, _ := place(t)
			central(t, p, test.network)
			ask := func(args ...string) string {
				return run(t, append([]string{"ovn-nbctl", "--no-leader-only", "--db=" + p.Remote("nb")}, args...)...)
			}
			show := ask("show")
			for _, want := range test.show {
				if !strings.Contains(show, want) {
					t.Errorf("ovn-nbctl show lacks %q:\n%s", want, show)
				}
			}
			for _, not := range test.absent {
				if strings.Contains(show, not) {
					t.Errorf("ovn-nbctl show has %q:\n%s", not, show)
				}
			}
			list := ask("ls-lb-list", "ovn-default")
			if len(test.balancers) == 0 && list != "" {
				t.Errorf("the switch has load balancers:\n%s", list)
			}
			for _, want := range test.balancers {
				if !strings.Contains(list, want) {
					t.Errorf("ovn-nbctl ls-lb-list lacks %q:\n%s", want, list)
				}
			}
			ask("--wait=sb", "--timeout=10", "sync")
			flows := run(t, "ovn-sbctl", "--no-leader-only", "--db="+p.Remote("sb"), "lflow-list")
			if !strings.Contains(flows, test.translated) {
				t.Errorf("no logical flow has %q", test.translated)
			}
		})
	}
}

// Without a machine that binds them, ports stay down, and the error says which.
func TestWaitForNobody(t *testing.T) {
	p, _ := place(t)
	c := central(t, p, ovn.Network{Ports: pods(2)})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	wantError(t, c.Wait(ctx), "no machine has bound m1.pod-0, m2.pod-0")
}

// A network without ports needs no machine: what is left to wait for is that
// ovn-northd has translated it.
func TestWaitForNorthd(t *testing.T) {
	p, _ := place(t)
	c := central(t, p, ovn.Network{})
	testenv.Must(t, c.Wait(t.Context()))
	testenv.Must(t, c.Wait(t.Context())) // it counts on
}

// Whichever daemon of the central dies, who waits learns of it at once.
func TestDaemonDies(t *testing.T) {
	p, children := place(t)
	c := central(t, p, ovn.Network{Ports: pods(1)})
	failed := make(chan error, 1)
	go func() { failed <- c.Wait(t.Context()) }()
	time.Sleep(50 * time.Millisecond)
	(*children)[2].Stop(0)
	err := <-failed
	wantError(t, err, "ovn-northd ended")
	if errors.Is(err, context.Canceled) {
		t.Errorf("%v reads as if somebody had interrupted", err)
	}
	wantError(t, c.Wait(t.Context()), "ovn-northd ended")
}

func TestNoPlace(t *testing.T) {
	p, _ := place(t)
	p.Folder += "/nothere"
	_, err := ovn.StartCentral(t.Context(), p, ovn.Network{})
	wantError(t, err, "nothere")
}

// What OVN itself refuses is an error.
func TestRefused(t *testing.T) {
	p, _ := place(t)
	twice := append(pods(1), pods(1)...)
	_, err := ovn.StartCentral(t.Context(), p, ovn.Network{Ports: twice})
	wantError(t, err, "m1.pod-0")
}

func wantError(t *testing.T, err error, says string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("error is %v, want one that says %q", err, says)
	}
}
