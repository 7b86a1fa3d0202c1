package netcfg_test

import (
	"testing"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
)

func TestMove(t *testing.T) {
	w, from := testenv.Namespace(t)
	to, err := w.Create(w.Name("m2"))
	testenv.Must(t, err)
	defer to.Close()
	testenv.Must(t, netcfg.AddVeth(netcfg.VethEnd{In: from, Name: "port", MAC: []byte{2, 0, 0, 0, 0, 5}},
		netcfg.VethEnd{In: from, Name: "peer"}, 1400))
	testenv.Must(t, from.Move("port", to, "eth0"))
	testenv.InNetns(t, to.Path(), func() error {
		links, err := host.Links()
		for _, l := range links {
			if a := l.Attrs(); a.Name == "eth0" {
				if a.HardwareAddr.String() != "02:00:00:00:00:05" || a.MTU != 1400 || a.Flags&1 == 0 {
					t.Errorf("it is there as %+v", a)
				}
				return err
			}
		}
		t.Error("it is not there")
		return err
	})
	if err := from.Move("port", to, "eth1"); err == nil {
		t.Error("moved what is not there any more")
	}
	testenv.Must(t, netcfg.AddVeth(netcfg.VethEnd{In: from, Name: "port"}, netcfg.VethEnd{In: from, Name: "peer2"}, 1400))
	if err := from.Move("port", to, "eth0"); err == nil {
		t.Error("two devices have one name")
	}
}
