package compare

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/kube"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/ovs"
	"github.com/venturi-net/venturi/internal/path"
	"github.com/venturi-net/venturi/internal/remote"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

// joined are two machines that share nothing but the kernel, joined by a cable. They have the
// program: to bring it takes seconds of CPU time, and is tested by TestMachines.
func joined(t *testing.T) [2]*testenv.SSHMachine {
	t.Helper()
	m := [2]*testenv.SSHMachine{withProgram(t, "client"), withProgram(t, "server")}
	testenv.Join(t, m[0], m[1])
	return m
}

// withProgram makes a machine that has the program.
func withProgram(t *testing.T, name string) *testenv.SSHMachine {
	t.Helper()
	return withProgramAhead(t, name, 0)
}

// withProgramAhead makes one whose monotonic clocks are ahead of others'.
func withProgramAhead(t *testing.T, name string, ahead time.Duration) *testenv.SSHMachine {
	t.Helper()
	program, err := os.Executable()
	testenv.Must(t, err)
	m := testenv.NewSSHMachineAhead(t, name, ahead)
	m.Install(t, program)
	return m
}

// onCards asks for paths on the network cards of two machines.
func onCards(t *testing.T, m [2]*testenv.SSHMachine, paths ...string) Request {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Request{
		Paths: paths, Loads: []string{"tcp_lat", "udp_lat"}, Series: 2, Rounds: 3, Slice: 20 * time.Millisecond, Out: t.TempDir(),
		Remote: Remote{
			Machines: []remote.Machine{{Name: "a", Host: "client"}, {Name: "b", Host: "server"}},
			Options:  remote.Options{Program: program, SSH: testenv.SSHCommand(t, m[0], m[1])},
			Dev:      "eth0",
		},
	}
}

// measured wants slices of every arm that carried something, and no warning.
func measured(t *testing.T, rec *result.Record) {
	t.Helper()
	carried := map[string]int{}
	for _, s := range rec.Slices {
		if s.Failed == "" && (s.Latency != nil && s.Latency.Replies > 0 || s.Stream != nil && s.Stream.RecvBytes > 0) {
			carried[s.Arm]++
		}
	}
	all := len(rec.Slices) / len(rec.Plan.Arms)
	for _, arm := range rec.Plan.Arms {
		// On a busy machine, all of 20 ms may pass without a packet.
		if carried[arm.Name] < all-all/3 || all == 0 {
			t.Errorf("%d of %d slices of %s carried something", carried[arm.Name], all, arm.Name)
		}
	}
	for _, w := range rec.Warnings {
		if w.Code != "fast-path-on-wire" { // which is as it should be beside the host network
			t.Errorf("warning: %s %s", w.Code, w.Text)
		}
	}
}

// nothingLeft waits until a machine has no process, namespace, device or file of ours.
// Its own devices, beside eth0, are named.
func nothingLeft(t *testing.T, m *testenv.SSHMachine, own ...string) {
	t.Helper()
	m.WantNothingLeft(t, givenUpAfter, own...)
}

// Every machine builds its half of the paths on its network card, and takes it down.
func TestPathsOnCards(t *testing.T) {
	m := joined(t)
	q := onCards(t, m, "host", "routed", "vxlan", "bgp", "macvlan", "vxlan+fast", "vxlan:tunnels=2")
	q.Services = 3
	rec, _, err := Do(t.Context(), resolve(t, q), Host{Watch: deaf{}})
	if err != nil {
		t.Fatal(err)
	}
	measured(t, rec)
	if !strings.Contains(rec.Plan.Wire, "eth0 by macvlan") || rec.Plan.SharedCores {
		t.Errorf("the wire is %q; shared cores: %v", rec.Plan.Wire, rec.Plan.SharedCores)
	}
	for i, name := range []string{"a", "b"} {
		f := rec.Facts[i]
		if !slices.ContainsFunc(f.Devices, func(d result.Device) bool { return d.Namespace == name+"/vxlan" && d.Name == "eth0" }) {
			t.Errorf("the facts of %s lack the pod of vxlan: %+v", name, f.Devices)
		}
		if !slices.ContainsFunc(f.Devices, func(d result.Device) bool { return d.Namespace == name && d.Name == "eth0" && d.Kind == "veth" }) {
			t.Errorf("the facts of %s lack its network card", name)
		}
	}
	for _, m := range m {
		nothingLeft(t, m)
	}
}

// Bridges and switches behind a card get frames that are not for the card's MAC.
func TestSwitchesOnCards(t *testing.T) {
	testenv.Needs(t, ovs.Needs()...)
	m := joined(t)
	rec, _, err := Do(t.Context(), resolve(t, onCards(t, m, "host", "ovs-vlan:datapath=netdev,ids=2", "ovs-qinq:datapath=netdev", "ovs-vxlan:datapath=netdev")), Host{Watch: deaf{}})
	if err != nil {
		t.Fatal(err)
	}
	measured(t, rec)
	for _, m := range m {
		nothingLeft(t, m)
	}
}

// Paths are built on three machines, and measured between any two of them.
func TestPathsOnThreeCards(t *testing.T) {
	for _, take := range []bool{false, true} {
		t.Run(fmt.Sprintf("take=%v", take), func(t *testing.T) {
			m := joined(t)
			third := withProgram(t, "third")
			all := []*testenv.SSHMachine{m[0], m[1], third}
			testenv.JoinBySwitch(t, "eth1", all...)
			q := onCards(t, m, "host", "host:b,c", "vxlan:a,c,tunnels=2", "bgp:c,b", "macvlan:c,a")
			q.Remote.Machines = append(q.Remote.Machines, remote.Machine{Name: "c", Host: "third"})
			q.Remote.Options.SSH = testenv.SSHCommand(t, all...)
			q.Remote.Dev, q.Remote.Take = "eth1", take
			rec, _, err := Do(t.Context(), resolve(t, q), Host{Watch: deaf{}})
			if err != nil {
				t.Fatal(err)
			}
			measured(t, rec)
			between := map[string]string{}
			for _, arm := range rec.Plan.Arms {
				between[arm.Name] = arm.FromMachine + "-" + arm.ToMachine + " " + arm.From + "-" + arm.To
			}
			for name, want := range map[string]string{"host": "- 10.200.0.1-10.200.0.2", "b-c": "b-c 10.200.0.2-10.200.0.3", "vxlan-a-c": "a-c ", "bgp-c-b": "c-b ", "macvlan-c-a": "c-a "} {
				if !strings.HasPrefix(between[name], want) {
					t.Errorf("path %s is between %q, want %q", name, between[name], want)
				}
			}
			for _, m := range all {
				nothingLeft(t, m, "eth1")
			}
		})
	}
}

// However the agent or the channel ends, the machines take down what they built.
func TestCardsAfterKill(t *testing.T) {
	for name, kill := range map[string]func(m *testenv.SSHMachine, t *testing.T){
		"agent": func(m *testenv.SSHMachine, t *testing.T) { killAll(m, "agent --stdio") },
		"ssh":   func(m *testenv.SSHMachine, t *testing.T) { killAll(m, "sshd") },
		"pause": func(m *testenv.SSHMachine, t *testing.T) { m.Stop(t) },
	} {
		t.Run(name, func(t *testing.T) {
			m := joined(t)
			q := onCards(t, m, "host", "bgp")
			q.Series, q.Rounds, q.Loads = 100, 10, []string{"tcp_lat"}
			var killed time.Time
			rec, _, err := Do(t.Context(), resolve(t, q), Host{Watch: &firstSeries{callback: func() {
				killed = time.Now()
				kill(m[1], t)
			}}})
			if verr.Code(err) != verr.Partial || killed.IsZero() || rec == nil || len(rec.Slices) == 0 {
				t.Errorf("error %v, killed at %v", err, killed)
			}
			nothingLeft(t, m[0])
			m[1].Continue()
			nothingLeft(t, m[1])
		})
	}
}

// killAll kills the processes of a machine whose command holds a text.
func killAll(m *testenv.SSHMachine, text string) {
	for pid, command := range m.Processes() {
		if strings.Contains(command, text) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// What cannot be built is refused, with the machine's name, before anything is made.
func TestCardsRefused(t *testing.T) {
	m := joined(t)
	m[1].Do(t, "ip", "link", "set", "eth0", "down")
	for text, change := range map[string]func(*Request){
		"b":                       func(q *Request) {},
		"there is no such device": func(q *Request) { q.Remote.Dev = "eth7" },
		"give another network":    func(q *Request) { q.Remote.Net = "192.0.2.0/24" },
	} {
		q := onCards(t, m, "vxlan")
		change(&q)
		_, _, err := Do(t.Context(), resolve(t, q), Host{Watch: deaf{}})
		if verr.Code(err) != verr.Usage || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, m := range m {
		noAgent(t, m)
	}
}

func TestParseCards(t *testing.T) {
	machines := []remote.Machine{{Name: "a"}, {Name: "b"}}
	for text, want := range map[string][]lab.SharedCard{
		"eth1":             {{Device: "eth1"}, {Device: "eth1"}},
		"eth1,ipvlan":      {{Device: "eth1", IPVLAN: true}, {Device: "eth1", IPVLAN: true}},
		"a=eth1,b=ens5":    {{Device: "eth1"}, {Device: "ens5"}},
		"b=ens5,eth1":      {{Device: "eth1"}, {Device: "ens5"}},
		"a=eth1.7,b=bond0": {{Device: "eth1.7"}, {Device: "bond0"}},
	} {
		if got, err := parseCards(text, false, machines); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "a=eth1", "c=eth1", "eth 1", "a=../x,b=y", "ipvlan", "eth1,", "eth1,ens5", "a=eth1,a=ens5"} {
		if got, err := parseCards(text, false, machines); verr.Code(err) != verr.Usage {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	if got, err := parseCards("eth1", true, machines); err != nil || !got[0].Take || !got[1].Take {
		t.Errorf("taken: %+v, %v", got, err)
	}
	if _, err := parseCards("eth1,ipvlan", true, machines); verr.Code(err) != verr.Usage || !strings.Contains(err.Error(), "--take") {
		t.Errorf("taken by ipvlan: %v", err)
	}
	machines = append(machines, remote.Machine{Name: "c"})
	if got, err := parseCards("a=eth1,c=eth2", false, machines); err != nil || !slices.Equal(got, []lab.SharedCard{{Device: "eth1"}, {}, {Device: "eth2"}}) {
		t.Errorf("of three machines: %+v, %v", got, err)
	}
	for _, q := range []Request{
		{Paths: []string{"vxlan"}, Remote: Remote{Dev: "eth0", Net: "10.244.0.0/24"}},
		{Paths: []string{"host"}, Remote: Remote{Net: "10.9.0.0/24"}},
		{Paths: []string{"host"}, Services: 10},
		{Paths: []string{"attach:x,from=a/ns:red,to=b/ns:red", "attach:y,from=a/self,to=b/self"}, Remote: Remote{Dev: "ipvlan"}},
		{Paths: []string{"vxlan", "bgp"}, Remote: Remote{Dev: "eth0,ipvlan"}},
		{Paths: []string{"vlan"}, Remote: Remote{Dev: "eth0,ipvlan"}},
		{Paths: []string{"qinq"}, Remote: Remote{Dev: "eth0,ipvlan"}},
		{Paths: []string{"ovs-vlan:datapath=netdev"}, Remote: Remote{Dev: "eth0,ipvlan"}},
		{Paths: []string{"ovs-vxlan:datapath=netdev"}, Remote: Remote{Dev: "eth0,ipvlan"}},
	} {
		q.Remote.Machines = machines
		if _, err := q.Resolve(); verr.Code(err) != verr.Usage {
			t.Errorf("%+v: %v", q, err)
		}
	}
}

// Paths that only one host can have are refused before any machine is called, with what can be
// measured instead.
func TestPathsOfOneHost(t *testing.T) {
	machines := []remote.Machine{{Name: "a", Host: "nowhere"}, {Name: "b", Host: "nowhere"}}
	for _, d := range path.Table {
		if !d.OneHost {
			continue
		}
		instead := "ovs-geneve"
		if d.InVMs {
			instead = "host:v1,v2"
		}
		for _, r := range []Remote{{Machines: machines, Dev: "eth0"}, {Machines: machines, Dev: "eth0,ipvlan"}, {Machines: machines, Dev: "eth0", Take: true}, {Machines: machines}} {
			_, err := Request{Paths: []string{"host", d.Name}, Remote: r}.Resolve()
			var told *verr.Error
			if !errors.As(err, &told) || told.Code != verr.Usage || r.Dev != "" && !strings.Contains(told.Hint, instead) {
				t.Errorf("%s with the card %q: %+v, want %q among what to do", d.Name, r.Dev, err, instead)
			}
		}
	}
}

// A cluster has its baseline: another one is refused, and not ignored.
func TestClusterHasItsBaseline(t *testing.T) {
	q := Request{Paths: []string{"pod", "service"}, Cluster: &Cluster{Options: kube.Options{Image: "registry.example/venturi:1"}}, Baseline: "service"}
	if _, err := q.Resolve(); verr.Code(err) != verr.Usage || !strings.Contains(err.Error(), "--baseline") && !strings.Contains(err.Error(), "compared with host") {
		t.Errorf("%v", err)
	}
}

// What a machine's kernel lacks is named with the machine, and what to do there: no kernel that
// this host keeps helps.
func TestMachineLacks(t *testing.T) {
	testenv.Root(t)
	warp := &feature.Probe{Name: "warp drive", Get: "load the module warp (modprobe warp)", Try: func(*netcfg.Namespace) error { return syscall.EOPNOTSUPP }}
	err := onMachine("b", feature.Require("cannot raise path warp", warp))
	want := "cannot raise path warp on machine b: this kernel has no warp drive: operation not supported"
	if verr.Code(err) != verr.Missing || !strings.Contains(err.Error(), want) || strings.Contains(fmt.Sprintf("%+v", err), "--kernel") {
		t.Errorf("%v, want %s", err, want)
	}
	var told *verr.Error
	if !errors.As(err, &told) || told.Hint != "on machine b, load the module warp (modprobe warp); or leave out what needs it" {
		t.Errorf("it says what to do: %+v", told)
	}
}
