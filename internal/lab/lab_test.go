package lab_test

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/verr"
)

// Bad requests are refused before anything is made, root or not.
func TestRefused(t *testing.T) {
	for what, o := range map[string]lab.Options{
		"unknown path":      {Paths: []string{"host", "warp"}},
		"too many Services": {Services: lab.MaxServices + 1},
		"less than none":    {Services: -1},
	} {
		if _, err := lab.Up(t.Context(), o); verr.Code(err) != verr.Usage {
			t.Errorf("%s: %v, want a usage error", what, err)
		}
	}
	testenv.Root(t)
	for _, name := range []string{"A", "a.b", "..", "a/b", strings.Repeat("x", 40)} {
		if _, err := lab.Up(t.Context(), lab.Options{Name: name}); verr.Code(err) != verr.Usage {
			t.Errorf("name %q: %v, want a usage error", name, err)
		}
	}
}

// The settings that a measurement depends on do not come from the machine.
func TestSettings(t *testing.T) {
	l := testenv.Lab(t, lab.Options{Paths: []string{"host", "routed", "vxlan"}})
	want := map[string]string{
		"net.ipv4.tcp_congestion_control":    "reno",
		"net.ipv4.tcp_slow_start_after_idle": "0",
	}
	for _, m := range l.Machines {
		for _, space := range m.Namespaces() {
			testenv.InNetns(t, space.Path, func() error {
				for name, value := range want {
					if got, err := (host.Reader{}).Sysctl(name); got != value {
						t.Errorf("%s: %s is %q (%v), want %q", space.Name, name, got, err, value)
					}
				}
				for _, name := range []string{"iptables", "ip6tables", "arptables"} {
					name = "net.bridge.bridge-nf-call-" + name
					if got, err := (host.Reader{}).Sysctl(name); got != "0" && !errors.Is(err, os.ErrNotExist) {
						t.Errorf("%s: %s is %q (%v), want 0 where br_netfilter is loaded", space.Name, name, got, err)
					}
				}
				// qperf's server listens so.
				l, err := net.Listen("tcp6", "[::]:0")
				if err != nil {
					return err
				}
				return l.Close()
			})
		}
	}
}

// The packet filter of a node is there when it was asked for, and only then.
func TestServices(t *testing.T) {
	for services, rules := range map[int]int{0: 0, 10: 10*5 + 23} {
		l := testenv.Lab(t, lab.Options{Paths: []string{"vxlan"}, Services: services})
		for _, m := range l.Machines {
			f, problems := host.Reader{}.Facts(m.Name, m.Namespaces()...)
			if len(problems) > 0 {
				t.Errorf("facts: %v", problems)
			}
			if f.NetfilterRules != rules || f.Conntrack != (services > 0) {
				t.Errorf("%d Services: %d rules, tracking %v, want %d and %v", services, f.NetfilterRules, f.Conntrack, rules, services > 0)
			}
			if f.WrappedRules > 0 != (services > 0) {
				t.Errorf("%d Services: %d rules with extensions of iptables", services, f.WrappedRules)
			}
			if services > 0 && f.Sysctls["net.bridge.bridge-nf-call-iptables"] != "1" {
				t.Error("bridges bypass the packet filter")
			}
		}
	}
}

// What every packet walks is what kube-proxy and the kubelet write through
// iptables, to the word.
func TestServicesToIPTables(t *testing.T) {
	testenv.Root(t)
	save, err := exec.LookPath("iptables-nft-save")
	if err != nil {
		t.Skip("no iptables-nft-save (package iptables)")
	}
	l := testenv.Lab(t, lab.Options{Services: 1})
	var out []byte
	testenv.InNetns(t, l.Machines[0].Namespace, func() (err error) {
		out, err = exec.CommandContext(t.Context(), save, "-t", "filter").Output()
		return err
	})
	var got []string
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "-A ") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	want := strings.Split(strings.TrimSpace(saved), "\n")
	if !slices.Equal(got, want) {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), saved)
	}
}

const saved = `
-A INPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes load balancer firewall" -j KUBE-PROXY-FIREWALL
-A INPUT -m comment --comment "kubernetes health check service ports" -j KUBE-NODEPORTS
-A INPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes externally-visible service portals" -j KUBE-EXTERNAL-SERVICES
-A INPUT -j KUBE-FIREWALL
-A FORWARD -m conntrack --ctstate NEW -m comment --comment "kubernetes load balancer firewall" -j KUBE-PROXY-FIREWALL
-A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
-A FORWARD -m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A FORWARD -m conntrack --ctstate NEW -m comment --comment "kubernetes externally-visible service portals" -j KUBE-EXTERNAL-SERVICES
-A OUTPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes load balancer firewall" -j KUBE-PROXY-FIREWALL
-A OUTPUT -m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A OUTPUT -j KUBE-FIREWALL
-A KUBE-FIREWALL ! -s 127.0.0.0/8 -d 127.0.0.0/8 -m comment --comment "block incoming localnet connections" -m conntrack ! --ctstate RELATED,ESTABLISHED -m conntrack ! --ctstate DNAT -j DROP
-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP
-A KUBE-FORWARD -m comment --comment "kubernetes forwarding rules" -m mark --mark 0x4000/0x4000 -j ACCEPT
-A KUBE-FORWARD -m comment --comment "kubernetes forwarding conntrack rule" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
`

// A name is taken while its lab is up, and free again afterwards.
func TestNameInUse(t *testing.T) {
	l := testenv.Lab(t, lab.Options{})
	_, err := lab.Up(t.Context(), lab.Options{Name: l.Name})
	if verr.Code(err) != verr.Busy {
		t.Errorf("second lab of that name: %v, want an error with code %d", err, verr.Busy)
	}
	if err := lab.Remove(t.Context(), l.Name); verr.Code(err) != verr.Busy {
		t.Errorf("removing a lab in use: %v, want an error with code %d", err, verr.Busy)
	}
	testenv.Must(t, l.Down())
	testenv.Must(t, l.Down()) // once more does nothing
	again, err := lab.Up(t.Context(), lab.Options{Name: l.Name})
	testenv.Must(t, err)
	testenv.Must(t, again.Down())
	if err := lab.Remove(t.Context(), l.Name); verr.Code(err) != verr.Usage {
		t.Errorf("removing a lab that is not there: %v, want a usage error", err)
	}
}

func TestTwoLabsAtOnce(t *testing.T) {
	a := testenv.Lab(t, lab.Options{Paths: []string{"vxlan"}})
	b := testenv.Lab(t, lab.Options{Paths: []string{"vxlan"}})
	if a.Machines[0].Namespace == b.Machines[0].Namespace {
		t.Errorf("both have %s", a.Machines[0].Namespace)
	}
}

// A cancelled Up takes down what it built; that nothing is left is what
// TestMain looks for.
func TestCancelled(t *testing.T) {
	testenv.Root(t)
	for i := range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*3*time.Millisecond)
		l, err := lab.Up(ctx, lab.Options{Name: testenv.LabName(), Paths: []string{"vxlan", "routed"}})
		switch {
		case err == nil:
			testenv.Must(t, l.Down())
		case !errors.Is(err, context.DeadlineExceeded):
			t.Errorf("Up = %v, want %v", err, context.DeadlineExceeded)
		}
		cancel()
	}
}

func TestAgents(t *testing.T) {
	l := testenv.Lab(t, lab.Options{Paths: []string{"host"}, AgentCommand: testenv.AgentCommand(t)})
	for _, m := range l.Machines {
		conn, err := net.Dial("unix", m.Socket)
		testenv.Must(t, err)
		conn.Close()
		id, err := host.ID(m.Namespace)
		testenv.Must(t, err)
		if pids, err := (host.Reader{}).ProcessesIn(id); err != nil || !slices.Equal(pids, []int{m.AgentPid}) {
			t.Errorf("in %s: processes %v (%v), want the agent %d", m.Name, pids, err, m.AgentPid)
		}
	}
	if info, err := os.Stat(folder(l.Name)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder of the lab: %v, %v, want mode 0700", info, err)
	}
}

// When an agent dies, who waits for that is told.
func TestAgentDies(t *testing.T) {
	l := testenv.Lab(t, lab.Options{AgentCommand: testenv.AgentCommand(t)})
	told := make(chan error, 1)
	go func() { told <- l.Wait(t.Context()) }()
	p, err := os.FindProcess(l.Machines[1].AgentPid)
	testenv.Must(t, err)
	testenv.Must(t, p.Kill())
	select {
	case err := <-told:
		if err == nil || !strings.Contains(err.Error(), "m2") {
			t.Errorf("Wait = %v, want an error that names m2", err)
		}
	case <-time.After(long):
		t.Error("nobody was told")
	}
}

func TestAgentFails(t *testing.T) {
	testenv.Root(t)
	_, err := lab.Up(t.Context(), lab.Options{Name: testenv.LabName(), AgentCommand: testenv.RoleCommand(t, "quitter")})
	if err == nil || !strings.Contains(err.Error(), "no such luck") {
		t.Errorf("Up = %v, want an error with what the agent said", err)
	}
}

// Waiting for an agent that never listens can be interrupted.
func TestAgentMute(t *testing.T) {
	testenv.Root(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := lab.Up(ctx, lab.Options{Name: testenv.LabName(), AgentCommand: testenv.RoleCommand(t, "mute")})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Up = %v, want %v", err, context.DeadlineExceeded)
	}
}

// A lab never touches what is the machine's own.
func TestMachineUntouched(t *testing.T) {
	testenv.Root(t)
	before := testenv.Snapshot(t)
	l, err := lab.Up(t.Context(), lab.Options{Name: testenv.LabName(), Paths: []string{"host", "routed", "vxlan"}, Services: 20})
	testenv.Must(t, err)
	during := testenv.Snapshot(t)
	testenv.Must(t, l.Down())
	for when, now := range map[string]string{"during": during, "after": testenv.Snapshot(t)} {
		if now != before {
			t.Errorf("%s the lab the machine differs: %s", when, difference(before, now))
		}
	}
	if strings.Count(before, "\n") < 200 || !strings.Contains(before, "net/ipv4/ip_forward") {
		t.Errorf("the snapshot holds next to nothing:\n%s", before)
	}
}

// difference lists the lines that only one of two texts has.
func difference(a, b string) string {
	as, bs := strings.Split(a, "\n"), strings.Split(b, "\n")
	var out []string
	for _, line := range as {
		if !slices.Contains(bs, line) {
			out = append(out, "- "+line)
		}
	}
	for _, line := range bs {
		if !slices.Contains(as, line) {
			out = append(out, "+ "+line)
		}
	}
	return strings.Join(out, "\n")
}
