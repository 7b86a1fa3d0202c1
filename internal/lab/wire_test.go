package lab_test

import (
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/verr"
)

func TestParseWire(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "tso=on,tunnel-tso=on,gro=off,csum=on,mtu=1500",
		"tso=off":                       "tso=off,tunnel-tso=on,gro=off,csum=on,mtu=1500",
		"gro=on, mtu=9000":              "tso=on,tunnel-tso=on,gro=on,csum=on,mtu=9000",
		"csum=off":                      "tso=off,tunnel-tso=off,gro=off,csum=off,mtu=1500",
		"csum=off,tso=off":              "tso=off,tunnel-tso=off,gro=off,csum=off,mtu=1500",
		"gso-max-size=65536":            "tso=on,tunnel-tso=on,gro=off,csum=on,mtu=1500",
		"gso-max-size=2048":             "tso=on,tunnel-tso=on,gro=off,csum=on,mtu=1500,gso-max-size=2048",
		"rss=l3":                        "tso=on,tunnel-tso=on,gro=off,csum=on,mtu=1500,rss=l3",
		"mtu=576":                       "tso=on,tunnel-tso=on,gro=off,csum=on,mtu=576",
		"mtu=65535":                     "tso=on,tunnel-tso=on,gro=off,csum=on,mtu=65535",
		"tunnel-tso=off,tso=on,csum=on": "tso=on,tunnel-tso=off,gro=off,csum=on,mtu=1500",
	} {
		w, err := lab.ParseWire(text)
		if err != nil || w.String() != want {
			t.Errorf("ParseWire(%q) = %v, %v, want %s", text, w, err, want)
			continue
		}
		if again, err := lab.ParseWire(w.String()); err != nil || again != w {
			t.Errorf("ParseWire(%q) = %v, %v, want what it was made from", w, again, err)
		}
	}
}

func TestBadWire(t *testing.T) {
	for text, says := range map[string]string{
		"tso":             "no value",
		"tso=yes":         "yes",
		"lro=on":          "lro",
		"mtu=575":         "576",
		"mtu=65536":       "65535",
		"mtu=big":         "big",
		"rss=l5":          "l5",
		"gso-max-size=1":  "2048",
		"tso=on,tso=off":  "twice",
		"csum=off,tso=on": "csum=on",
	} {
		_, err := lab.ParseWire(text)
		if verr.Code(err) != verr.Usage || !strings.Contains(err.Error(), says) {
			t.Errorf("ParseWire(%q) = %v, want a usage error that says %q", text, err, says)
		}
	}
}

func FuzzParseWire(f *testing.F) {
	f.Add("tso=on,tunnel-tso=on,gro=off,csum=on,mtu=1500")
	f.Add("csum=off,,mtu=9000 ")
	f.Fuzz(func(t *testing.T, text string) {
		w, err := lab.ParseWire(text)
		if err != nil {
			return
		}
		if again, err := lab.ParseWire(w.String()); err != nil || again != w {
			t.Errorf("%q reads as %v, which reads as %v (%v)", text, w, again, err)
		}
	})
}

// A card that hashes addresses alone has all that it receives carried by one core, one that
// hashes ports by all. A switch's ports are no cards of a machine.
func TestWireSteers(t *testing.T) {
	testenv.Root(t)
	cpus, err := host.AllowedCPUs()
	testenv.Must(t, err)
	for text, want := range map[string]int{"": 0, "rss=l3": 1, "rss=l4": len(cpus)} {
		w, err := lab.ParseWire(text)
		testenv.Must(t, err)
		for _, hosts := range []int{2, 3} {
			l := testenv.Lab(t, lab.Options{Wire: w, Hosts: hosts})
			for i, m := range l.Machines {
				if got := steeredCores(t, m.Namespace, "wire0"); got != want {
					t.Errorf("%q on %s of %d: %d cores, want %d", text, m.Name, hosts, got, want)
				}
				if hosts == 2 {
					continue // there is no switch
				}
				port := fmt.Sprintf("wire0.%d", i+1)
				if got := steeredCores(t, host.NamespacePath(netcfg.Mark+l.Name+".fabric"), port); got != 0 {
					t.Errorf("%q on port %s of the switch: %d cores, want none", text, port, got)
				}
			}
		}
	}
}

// steeredCores is how many cores what a device receives is steered to.
func steeredCores(t *testing.T, namespace, device string) (cores int) {
	t.Helper()
	testenv.Must(t, host.Do(namespace, func() error {
		return host.Sysfs(func(root string) error {
			b, err := os.ReadFile(filepath.Join(root, "class/net", device, "queues/rx-0/rps_cpus"))
			mask, ok := new(big.Int).SetString(strings.ReplaceAll(strings.TrimSpace(string(b)), ",", ""), 16)
			if err != nil || !ok {
				return fmt.Errorf("%q: %w", b, err)
			}
			for i := range mask.BitLen() {
				cores += int(mask.Bit(i))
			}
			return nil
		})
	}))
	return cores
}

// What was asked for is what both ends of the wire have.
func TestWireTakes(t *testing.T) {
	testenv.Root(t)
	for _, text := range []string{"", "tso=off", "tunnel-tso=off", "tso=off,tunnel-tso=off,gro=on", "csum=off,mtu=9000", "mtu=65535", "gso-max-size=16000"} {
		w, err := lab.ParseWire(text)
		testenv.Must(t, err)
		l := testenv.Lab(t, lab.Options{Wire: w, Paths: []string{"vxlan"}})
		for _, m := range l.Machines {
			facts, problems := host.Reader{}.Facts(m.Name, m.Namespaces()...)
			if len(problems) > 0 {
				t.Errorf("facts of %s: %v", m.Name, problems)
			}
			var wire netlink.Link
			testenv.Must(t, host.Do(m.Namespace, func() (err error) { wire, err = netlink.LinkByName("wire0"); return err }))
			for _, d := range facts.Devices {
				if d.Name != "wire0" {
					continue
				}
				got := lab.Wire{
					TSO: d.Features["tx-tcp-segmentation"], TunnelTSO: d.Features["tx-udp_tnl-segmentation"],
					GRO: d.Features["rx-gro"], Csum: d.Features["tx-checksum-ip-generic"], MTU: d.MTU,
					GSOMax: int(wire.Attrs().GSOMaxSize),
				}
				if got != w {
					t.Errorf("%s: wire is %v, want %v", m.Name, got, w)
				}
				if !w.TSO && d.Features["tx-udp-segmentation"] {
					t.Errorf("%s: a card without TSO segments UDP", m.Name)
				}
			}
		}
	}
}
