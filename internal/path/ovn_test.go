package path_test

import (
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/traffic"
)

// With load balancers all that pods send and get is tracked and looked up once
// more, and the Services are in the flows; without, nothing of that.
func TestOVNBalancer(t *testing.T) {
	l := testenv.Lab(t, lab.Options{Paths: []string{
		"ovn-overlay:datapath=netdev",
		"ovn-overlay:datapath=netdev,lb=off",
		"ovn-underlay:datapath=netdev,lb=on,services=37",
		"ovn-underlay:datapath=netdev",
	}})
	for i, services := range []int{100, 0, 37, 0} {
		arm := l.Arms[i]
		t.Run(arm.Name, func(t *testing.T) {
			traffic.CheckTCP(t, arm.Client(), arm.Server())
			traffic.CheckUDP(t, arm.Server(), arm.Client(), []int{100})
			folder := filepath.Join(lab.Folder, l.Name, "m1", arm.Name)
			ask := func(args ...string) string {
				return run(t, append([]string{"ovs-appctl", "-t", filepath.Join(folder, "vswitchd.ctl")}, args...)...)
			}
			flows := passing(ask("dpctl/dump-flows"), arm)
			if flows == "" {
				t.Fatal("no flow has carried packets of the pods")
			}
			for _, action := range []string{"ct(zone=", "recirc("} {
				if got := strings.Contains(flows, action); got != (services > 0) {
					t.Errorf("with %d Services, some flow has %q: %t\n%s", services, action, got, flows)
				}
			}
			tracked := strings.Contains(ask("dpctl/dump-conntrack"), "src="+arm.Client().Addr.String())
			if tracked != (services > 0) {
				t.Errorf("with %d Services, the pod's connections are tracked: %t", services, tracked)
			}
			rules := run(t, "ovs-ofctl", "dump-flows", "unix:"+filepath.Join(folder, "br-int.mgmt"))
			for k := 1; k <= 101; k++ {
				vip := fmt.Sprintf("nw_dst=10.96.0.%d,tp_dst=80 ", k)
				if got := strings.Contains(rules, vip); got != (k <= services) {
					t.Errorf("with %d Services, the switch has the one at 10.96.0.%d: %t", services, k, got)
				}
			}
		})
	}
}

// passing keeps of a list of flows those that packets of an arm's pods took.
func passing(list string, arm lab.Arm) string {
	var kept []string
	for _, flow := range strings.Split(list, "\n") {
		if strings.Contains(flow, "eth_type(0x0800)") && strings.Contains(flow, "dst=0a:76") && !strings.Contains(flow, "packets:0,") {
			kept = append(kept, flow)
		}
	}
	return strings.Join(kept, "\n")
}

func run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return string(out)
}

// A Service is answered by the pod that the load balancer picks, of whichever
// machine.
func TestOVNService(t *testing.T) {
	l := testenv.Lab(t, lab.Options{Paths: []string{"ovn-overlay:datapath=netdev,services=3"}})
	from, to := l.Arms[0].Client(), l.Arms[0].Server()
	const port = 80
	answered := map[string]bool{}
	for _, end := range []host.Endpoint{from, to} {
		var listener net.Listener
		testenv.Must(t, host.Do(end.Namespace, func() (err error) {
			listener, err = net.Listen("tcp", netip.AddrPortFrom(end.Addr, port).String())
			return err
		}))
		defer listener.Close()
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				fmt.Fprint(conn, end.Machine)
				conn.Close()
			}
		}()
	}
	for end := time.Now().Add(testenv.Timeout); len(answered) < 2 && time.Now().Before(end); {
		testenv.Must(t, host.Do(from.Namespace, func() error {
			conn, err := net.DialTimeout("tcp4", "10.96.0.3:80", testenv.Timeout)
			if err != nil {
				return err
			}
			defer conn.Close()
			buf := make([]byte, 10)
			n, err := conn.Read(buf)
			answered[string(buf[:n])] = true
			return err
		}))
	}
	if !answered["m1"] || !answered["m2"] {
		t.Errorf("the Service was answered by %v, want m1 and m2", answered)
	}
}

// One logical switch spans all machines, however many there are.
func TestOVNHosts(t *testing.T) {
	l := testenv.Lab(t, lab.Options{Hosts: 4, Paths: []string{
		"ovn-overlay:datapath=netdev", "ovn-underlay:datapath=netdev,vlan=4094", "ovn-overlay:datapath=netdev,lb=off,csum=off",
	}})
	for _, arm := range l.Arms {
		t.Run(arm.Name, func(t *testing.T) {
			for i := range arm.Ends {
				for j := range arm.Ends {
					if i != j {
						traffic.CheckUDP(t, arm.Ends[i][0], arm.Ends[j][0], []int{1, arm.Ends[i][0].MTU - 28})
					}
				}
			}
		})
	}
}

// Fragments that are small because the pods' MTU is are not taken for an
// attack by connection tracking.
func TestOVNSmallFragments(t *testing.T) {
	l := testenv.Lab(t, lab.Options{Paths: []string{"ovn-overlay:datapath=netdev,mtu=408", "ovn-overlay:datapath=netdev,mtu=1207"}})
	for _, arm := range l.Arms {
		traffic.CheckUDP(t, arm.Client(), arm.Server(), []int{arm.Client().MTU, 3 * arm.Client().MTU})
		traffic.CheckUDP(t, arm.Server(), arm.Client(), []int{arm.Client().MTU, 3 * arm.Client().MTU})
	}
}
