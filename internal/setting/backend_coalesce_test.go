package setting

import (
	"maps"
	"testing"

	"github.com/mdlayher/genetlink"
	"github.com/mdlayher/genetlink/genltest"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// resettingCard is a card of which the driver resets waits when it begins or ends to choose
// them itself, as mlx5 does.
func resettingCard(t *testing.T, now map[string]int) Scope {
	t.Helper()
	answer := func() ([]byte, error) {
		a := netlink.NewAttributeEncoder()
		for _, field := range coalesce.list {
			n, has := now[field.name]
			switch {
			case !has:
			case field.kind == number:
				a.Uint32(field.attr, uint32(n))
			default:
				a.Uint8(field.attr, uint8(n))
			}
		}
		return a.Encode()
	}
	conn := genltest.Dial(func(m genetlink.Message, _ netlink.Message) ([]genetlink.Message, error) {
		if m.Header.Command == unix.ETHTOOL_MSG_COALESCE_GET {
			data, err := answer()
			return []genetlink.Message{{Data: data}}, err
		}
		d, err := netlink.NewAttributeDecoder(m.Data)
		if err != nil {
			return nil, err
		}
		before := maps.Clone(now)
		for d.Next() {
			for _, field := range coalesce.list {
				switch {
				case d.Type() != field.attr:
				case field.kind == number:
					now[field.name] = int(d.Uint32())
				default:
					now[field.name] = int(d.Uint8())
				}
			}
		}
		if now["adaptive-rx"] != before["adaptive-rx"] {
			now["rx-usecs"], now["rx-frames"] = 8, 128
		}
		return []genetlink.Message{{}}, d.Err()
	})
	t.Cleanup(func() { conn.Close() })
	return Scope{Netns: &NetnsID{Path: HomeNetns}, Device: &DeviceID{Name: "card"}, entered: &entered{device: "card", eth: &ethConn{conn: conn, device: "card"}}}
}

// Where a driver resets the waits, they are told again, and an undo is exact. Those that it
// chooses are not compared.
func TestCoalesceOfResettingDriver(t *testing.T) {
	const fixed, chosen = "adaptive-rx=off,rx-usecs=3,rx-frames=32,tx-usecs=16", "adaptive-rx=on,rx-usecs=8,rx-frames=128,tx-usecs=16"
	for _, c := range []struct{ before, write, found string }{
		{chosen, "adaptive-rx=off,rx-usecs=0,rx-frames=128,tx-usecs=16", "adaptive-rx=off,rx-usecs=0,rx-frames=128,tx-usecs=16"},
		{fixed, "adaptive-rx=on,rx-usecs=3,rx-frames=32,tx-usecs=4", "adaptive-rx=on,rx-usecs=3,rx-frames=32,tx-usecs=4"},
	} {
		now, err := coalesce.parse(c.before)
		if err != nil {
			t.Fatal(err)
		}
		b, s := coalesce.backend(), Setting{Backend: "coalesce", Scope: resettingCard(t, now)}
		for _, write := range []struct{ value, found string }{{c.write, c.found}, {c.before, c.before}} {
			if err := b.Write(s, Text(write.value)); err != nil {
				t.Fatal(err)
			}
			if v, err := b.Read(s); err != nil || v.String() != write.found || !b.Matches(s, Text(write.value), v) {
				t.Errorf("%s, written to what was %s, is %s (%v)", write.value, c.before, v, err)
			}
		}
	}
	b := coalesce.backend()
	for found, want := range map[string]bool{"adaptive-rx=on,rx-usecs=64,tx-usecs=16": true, "adaptive-rx=off,rx-usecs=64,tx-usecs=16": false, "adaptive-rx=on,rx-usecs=8,tx-usecs=64": false} {
		if b.Matches(Setting{}, Text("adaptive-rx=on,rx-usecs=8,tx-usecs=16"), Text(found)) != want || b.Equivalent(Setting{}, Text("adaptive-rx=on,rx-usecs=8,tx-usecs=16"), Text(found)) {
			t.Errorf("%s matches: not %v", found, want)
		}
	}
}
