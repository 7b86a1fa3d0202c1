package bgp_test

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/venturi-net/venturi/internal/bgp"
	"github.com/venturi-net/venturi/internal/testenv"
)

// fullConfig is a config in which every field says something.
func fullConfig() *bgp.Config {
	return &bgp.Config{
		ASN:      64512,
		RouterID: netip.MustParseAddr("10.200.0.1"),
		Listen:   netip.MustParseAddrPort("10.200.0.1:1179"),
		Announce: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/26")},
		Accept:   []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")},
		Hold:     30, Keepalive: 9, ConnectRetry: 7, Scan: 5,
		ClusterID: netip.MustParseAddr("244.0.0.1"),
		Neighbours: []bgp.Neighbour{
			{Address: netip.MustParseAddr("10.200.0.2"), ASN: 64512, Port: 1179, Client: true, Passive: true},
		},
		State: "/run/state.json",
	}
}

var equal = cmp.Options{
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
	cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b }),
	cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
}

func TestConfigRoundTrip(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.json")
	testenv.Must(t, fullConfig().Write(file))
	got, err := bgp.Load(file)
	testenv.Must(t, err)
	if diff := cmp.Diff(fullConfig(), got, equal); diff != "" {
		t.Errorf("written and read again (-want +got):\n%s", diff)
	}
}

func TestConfigDefaults(t *testing.T) {
	c := fullConfig()
	c.Hold, c.Keepalive, c.ConnectRetry, c.Scan, c.Neighbours[0].Port = 0, 0, 0, 0, 0
	file := filepath.Join(t.TempDir(), "config.json")
	testenv.Must(t, c.Write(file))
	got, err := bgp.Load(file)
	testenv.Must(t, err)
	c.Hold, c.Keepalive, c.ConnectRetry, c.Scan, c.Neighbours[0].Port = 90, 30, 2, 10, 179
	if diff := cmp.Diff(c, got, equal); diff != "" {
		t.Errorf("what is filled in (-want +got):\n%s", diff)
	}
}

// An error names the field that is wrong.
func TestConfigErrors(t *testing.T) {
	good, err := json.Marshal(fullConfig())
	testenv.Must(t, err)
	for _, c := range []struct{ name, old, by, want string }{
		{"no JSON", "{", "", "invalid character"},
		{"unknown field", `"asn":64512,"router_id"`, `"asn":64512,"colour":1,"router_id"`, "colour:"},
		{"unknown field of a neighbour", `"port"`, `"prot"`, "neighbours: prot:"},
		{"wrong type", `"asn":64512,"router_id"`, `"asn":"x","router_id"`, "asn:"},
		{"no number of an AS", `"asn":64512,"router_id"`, `"router_id"`, "asn:"},
		{"too large a number of an AS", `"asn":64512,"router_id"`, `"asn":4294967296,"router_id"`, "asn:"},
		{"no address", `"router_id":"10.200.0.1"`, `"router_id":"10.200.0"`, "router_id:"},
		{"IPv6 as router id", `"router_id":"10.200.0.1"`, `"router_id":"::1"`, "router_id:"},
		{"no port", "10.200.0.1:1179", "10.200.0.1:0", "listen:"},
		{"any address", "10.200.0.1:1179", "0.0.0.0:179", "listen:"},
		{"no prefix", `"announce":["10.244.0.0/26"]`, `"announce":["10.244.0.0"]`, "announce:"},
		{"host bits", `"announce":["10.244.0.0/26"]`, `"announce":["10.244.0.1/26"]`, "announce[0]:"},
		{"IPv6 range", `"accept":["10.244.0.0/16"]`, `"accept":["fd00::/16"]`, "accept[0]:"},
		{"hold time of two", `"hold":30`, `"hold":2`, "hold:"},
		{"hold time above 16 bits", `"hold":30`, `"hold":65536`, "hold:"},
		{"hold time with a fraction", `"hold":30`, `"hold":3.5`, "hold:"},
		{"no keepalive in the hold time", `"keepalive":9`, `"keepalive":30`, "keepalive:"},
		{"retry below the library's", `"connect_retry":7`, `"connect_retry":1`, "connect_retry:"},
		{"negative scan", `"scan":5`, `"scan":-1`, "scan:"},
		{"client without cluster", `"cluster_id":"244.0.0.1",`, ``, "cluster_id:"},
		{"neighbour without address", `"address":"10.200.0.2",`, ``, "neighbours[0].address:"},
		{"itself as neighbour", `"address":"10.200.0.2"`, `"address":"10.200.0.1"`, "neighbours[0].address:"},
		{"neighbour without AS", `"asn":64512,"port"`, `"port"`, "neighbours[0].asn:"},
		{"client of another AS", `"asn":64512,"port"`, `"asn":64513,"port"`, "neighbours[0].client:"},
		{"port above 16 bits", `"port":1179`, `"port":65536`, "neighbours: port:"},
		{"no state file", `,"state":"/run/state.json"`, ``, "state:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			bad := strings.Replace(string(good), c.old, c.by, 1)
			if bad == string(good) {
				t.Fatalf("nothing to replace in %s", good)
			}
			file := filepath.Join(t.TempDir(), "config.json")
			testenv.Must(t, os.WriteFile(file, []byte(bad), 0o600))
			_, err := bgp.Load(file)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want one that says %q", err, c.want)
			}
		})
	}
	if _, err := bgp.Load(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("loading a file that is not there succeeded")
	}
}
