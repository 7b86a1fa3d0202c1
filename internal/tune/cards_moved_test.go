package tune_test

import (
	"os"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/knob/table"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/testenv"
)

// movedToNetns undoes what was set on a card that went to another namespace since, and
// on one that came home when its namespace ended. Where it went, another device has its number.
func movedToNetns(t *testing.T, c card) {
	e, err := table.Find("nic.txqueuelen")
	testenv.Must(t, err)
	w, err := netcfg.Owned(testenv.Claim(t))
	testenv.Must(t, err)
	n, err := w.Create(w.Name("away"))
	testenv.Must(t, err)
	holds := func(netns, what string, want string) {
		t.Helper()
		on := knob.Target{Netns: netns, Device: c.on.Device}
		now, err := e.Knob.Get(c.m, on)
		testenv.Must(t, err)
		if now.Value != want {
			t.Errorf("%s: it is %s, want %s", what, now.Value, want)
		}
	}
	first, err := e.Knob.Get(c.m, c.on)
	testenv.Must(t, err)
	testenv.Must(t, c.set(t, e, "777"))
	link, err := netlink.LinkByName(c.on.Device)
	testenv.Must(t, err)
	f, err := os.Open(n.Path())
	testenv.Must(t, err)
	defer f.Close()
	number := link.Attrs().Index // which is another device's there
	testenv.InNetns(t, n.Path(), func() error {
		return netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "other0", Index: number, TxQLen: 777}})
	})
	testenv.Must(t, netlink.LinkSetNsFd(link, int(f.Fd())))
	holds(n.Path(), "moved", "777")
	c.undo(t)
	holds(n.Path(), "moved, and undone", first.Value)
	testenv.InNetns(t, n.Path(), func() error {
		other, err := netlink.LinkByIndex(number)
		if err == nil && (other.Attrs().Name != "other0" || other.Attrs().TxQLen != 777) {
			t.Errorf("the other device of its number is %+v", other.Attrs())
		}
		return err
	})

	away := c
	away.on.Netns = n.Path()
	testenv.Must(t, away.set(t, e, "778"))
	testenv.Must(t, f.Close())
	n.Close()
	testenv.Must(t, w.Delete(w.Name("away")))
	for range 500 { // the kernel takes its time to end a namespace
		if _, err := netlink.LinkByName(c.on.Device); err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	holds("", "at home again", "778")
	c.undo(t)
	holds("", "at home again, and undone", first.Value)
}
