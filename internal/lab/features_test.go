package lab

import "testing"

// tunnelFeatures are NETIF_F_GSO_ENCAP_ALL of the kernel, by ethtool's names: a veth has all of them.
var tunnelFeatures = []string{
	"tx-gre-segmentation", "tx-gre-csum-segmentation", "tx-ipxip4-segmentation", "tx-ipxip6-segmentation",
	"tx-udp_tnl-segmentation", "tx-udp_tnl-csum-segmentation",
}

// A card that does not segment inside tunnels does so inside none, and one that does not segment TCP
// does not segment UDP.
func TestWireFeatures(t *testing.T) {
	for text, want := range map[string]struct{ tunnels, udpOff bool }{
		"":               {tunnels: true},
		"tso=off":        {tunnels: true, udpOff: true},
		"tunnel-tso=off": {},
		"csum=off":       {udpOff: true},
	} {
		w, err := ParseWire(text)
		if err != nil {
			t.Fatal(err)
		}
		features := w.features()
		for _, name := range tunnelFeatures {
			if on, ok := features[name]; !ok || on != want.tunnels {
				t.Errorf("%q: %s is switched: %v, to %v; want it switched to %v", text, name, ok, on, want.tunnels)
			}
		}
		if on, ok := features["tx-udp-segmentation"]; ok != want.udpOff || on {
			t.Errorf("%q: UDP segmentation is switched: %v, to %v; want it switched, off: %v", text, ok, on, want.udpOff)
		}
	}
}
