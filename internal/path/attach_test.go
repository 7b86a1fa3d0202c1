package path_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/path"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/traffic"
	"github.com/venturi-net/venturi/internal/verr"
)

// Two containers that somebody else wired carry what any path carries, found
// by their names or by processes in them, and whatever happens to those
// processes while the lab is up.
func TestAttach(t *testing.T) {
	const mtu = 1400
	made := testenv.Containers(t, mtu)
	child, err := made[1].In.Start(netcfg.Command{Args: []string{"/bin/cat"}})
	testenv.Must(t, err)
	defer child.Stop(testenv.Timeout)
	spec := fmt.Sprintf("attach:from=ns:%s,to=pid:%d", made[0].In.Name(), child.Pid)
	file := fmt.Sprintf("attach:from=ns:%s,to=ns:%s,to-addr=%s", made[1].In.Path(), made[0].In.Name(), made[0].Addr)

	l := testenv.Lab(t, lab.Options{Paths: []string{"host", spec, file}})
	child.Stop(testenv.Timeout)
	for i, want := range [][2]testenv.Container{{made[0], made[1]}, {made[1], made[0]}} {
		arm := l.Arms[i+1]
		from, to := arm.Client(), arm.Server()
		if from.Addr != want[0].Addr || to.Addr != want[1].Addr || from.Machine != "m1" || to.Machine != "m2" {
			t.Errorf("%s: ends %+v and %+v", arm.Name, from, to)
		}
		for _, end := range []struct {
			device string
			mtu    int
		}{{from.Device, from.MTU}, {to.Device, to.MTU}} {
			if end.device != "eth0" || end.mtu != mtu {
				t.Errorf("%s: device %s with MTU %d, want eth0 with %d", arm.Name, end.device, end.mtu, mtu)
			}
		}
		traffic.CheckTCP(t, from, to)
		traffic.CheckUDP(t, from, to, []int{1, mtu - 28, 3 * mtu})
	}
	if l.Arms[1].Options != strings.TrimPrefix(spec, "attach:") {
		t.Errorf("options %q", l.Arms[1].Options)
	}
}

// A route may allow less than its device.
func TestAttachMTUOfRoute(t *testing.T) {
	made := testenv.Containers(t, 1500)
	testenv.RouteMTU(t, made[0].In.Path(), made[1].Addr, 1300)
	l := testenv.Lab(t, lab.Options{Paths: []string{"attach:from=ns:" + made[0].In.Name() + ",to=ns:" + made[1].In.Name()}})
	if from, to := l.Arms[0].Client().MTU, l.Arms[0].Server().MTU; from != 1300 || to != 1500 {
		t.Errorf("MTU %d and %d, want 1300 and 1500", from, to)
	}
}

// Of several addresses of an end, the one is taken to which there is a route.
func TestAttachChoosesAddress(t *testing.T) {
	made := testenv.Containers(t, 1500)
	for i, more := range []string{"10.9.0.1/16", "10.7.0.1/24"} { // which the other one has no route to
		testenv.Must(t, made[i].In.AddAddr("lo", netip.MustParsePrefix(more)))
	}
	l := testenv.Lab(t, lab.Options{Paths: []string{"attach:pair,from=ns:" + made[0].In.Name() + ",to=ns:" + made[1].In.Name()}})
	if arm := l.Arms[0]; arm.Name != "pair" || arm.Client().Addr != made[0].Addr || arm.Server().Addr != made[1].Addr {
		t.Errorf("%+v", arm)
	}
}

// What makes no sense is refused as it is read.
func TestAttachBadSpec(t *testing.T) {
	for options, why := range map[string]string{
		"from-addr=10.0.0.1":              "needs both from and to",
		"from=ns:a":                       "needs both from and to",
		"from=ns:,to=ns:b":                "want ns:NAME",
		"from=ns:../b,to=ns:b":            "want ns:NAME",
		"from=a,to=ns:b":                  "want ns:NAME",
		"from=pid:0,to=ns:b":              "pid:NUMBER",
		"from=pid:-1,to=ns:b":             "pid:NUMBER",
		"from=pid:4194305,to=ns:b":        "pid:NUMBER",
		"from=ns:a,to=ns:b,to-addr=::1":   "not an IPv4 address",
		"from=ns:a,to=ns:b,to-addr=1.2.3": "not an IPv4 address",
		"from=ns:a,to=ns:b,mtu=1400":      "no option",
		"from=ns:a,from=ns:b,to=ns:c":     "given twice",
	} {
		_, _, err := path.ParseSpec("attach:" + options)
		if verr.Code(err) != verr.Usage || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v, want a usage error that says %q", options, err, why)
		}
	}
	_, v, err := path.ParseSpec("attach:from=self,to=pid:123")
	if err != nil || v["from"] != "self" || v["to"] != "pid:123" {
		t.Errorf("%v, %v", v, err)
	}
}

// What is not there, or not meant, is refused before anything is raised.
func TestAttachRefuses(t *testing.T) {
	made := testenv.Containers(t, 1500)
	a, b := made[0], made[1]
	other := testenv.Containers(t, 1500) // with the same addresses
	testenv.Must(t, other[0].In.AddAddr("eth0", netip.MustParsePrefix("10.9.0.1/16")))
	testenv.Must(t, other[1].In.AddAddr("eth0", netip.MustParsePrefix("10.7.0.1/32")))
	w, err := netcfg.Owned(testenv.Claim(t))
	testenv.Must(t, err)
	bare, err := w.Create(w.Name("bare"))
	testenv.Must(t, err)
	defer bare.Close()
	for name, c := range map[string]struct{ from, to, why, do string }{
		"no namespace":    {"ns:venturi.nowhere", "ns:" + b.In.Name(), "there is no /run/netns/venturi.nowhere", "ip netns"},
		"no process":      {"pid:4194304", "ns:" + b.In.Name(), "no such process", "docker inspect"},
		"no file":         {"ns:/etc/passwd", "ns:" + b.In.Name(), "not a namespace", "pid:N"},
		"another kind":    {"ns:/proc/self/ns/mnt", "ns:" + b.In.Name(), "invalid argument", "a network namespace"},
		"the machine":     {"ns:" + a.In.Name(), fmt.Sprintf("pid:%d", os.Getpid()), "the machine's own network", "to=self"},
		"its file":        {"ns:" + a.In.Name(), "ns:/proc/self/ns/net", "the machine's own network", "to=self"},
		"one namespace":   {"ns:" + a.In.Name(), "ns:" + a.In.Path(), "the same namespace", "two that differ"},
		"no address":      {"ns:" + a.In.Name(), "ns:" + bare.Name(), "no IPv4 address", "connect it"},
		"many addresses":  {"ns:" + a.In.Name(), "ns:" + other[0].In.Name(), "no route to any of the addresses [172.17.0.2 10.9.0.1]", "join the two"},
		"another address": {"ns:" + a.In.Name() + ",from-addr=10.1.1.1", "ns:" + b.In.Name(), "does not have the address 10.1.1.1", "one of 172.17.0.2 (eth0)"},
		"no route":        {"ns:" + a.In.Name(), "ns:" + other[0].In.Name() + ",to-addr=10.9.0.1", "no route from 172.17.0.2 to 10.9.0.1", "join the two"},
		"no way back":     {"ns:" + other[0].In.Name() + ",from-addr=10.9.0.1", "ns:" + other[1].In.Name() + ",to-addr=172.17.0.3", "no route from 172.17.0.3 to 10.9.0.1", "join the two"},
		"its own address": {"ns:" + a.In.Name(), "ns:" + other[0].In.Name() + ",to-addr=172.17.0.2", "the address 172.17.0.2", "another address"},
	} {
		t.Run(name, func(t *testing.T) {
			o := lab.Options{Paths: []string{"host", "attach:from=" + c.from + ",to=" + c.to}}
			err := o.Check()
			var told *verr.Error
			if verr.Code(err) != verr.Usage || !errors.As(err, &told) {
				t.Fatalf("%v, want a usage error", err)
			}
			if !strings.Contains(told.Reason, c.why) || !strings.Contains(told.Hint, c.do) {
				t.Errorf("%v\nwant it to say %q and %q", err, c.why, c.do)
			}
		})
	}
}
