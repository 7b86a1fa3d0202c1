package topology

import (
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/nlmsg"
)

// A route by a next hop object that was not listed, as it was made meanwhile, may do anything: its device is refused, and
// all are if it names none.
func TestUnlistedNexthop(t *testing.T) {
	for _, c := range []struct {
		object, device uint32
		refused, all   bool
	}{{7, 5, false, false}, {8, 5, true, false}, {8, 0, true, true}} {
		header := (&nl.RtMsg{RtMsg: unix.RtMsg{Family: unix.AF_INET, Type: unix.RTN_UNICAST}}).Serialize()
		message := slices.Concat(header, nl.NewRtAttr(rtNexthop, nl.Uint32Attr(c.object)).Serialize())
		if c.device != 0 {
			message = append(message, nl.NewRtAttr(unix.RTA_OIF, nl.Uint32Attr(c.device)).Serialize()...)
		}
		m := readRoute(message, IPv4)
		m.applyNexthop(map[uint32]nexthopMessage{7: {id: 7, device: 5}})
		r := reader{routeIndex: newRouteIndex()}
		r.markUncertain(m)
		why := r.uncertainDevices[5]
		if c.all {
			why = r.perPacket
		}
		if strings.Contains(why, "has a next hop object that was made or removed meanwhile") != c.refused || (r.perPacket != "") != c.all {
			t.Errorf("%+v: refused %v, all %q", c, r.uncertainDevices, r.perPacket)
		}
	}
}

// What has changed while it was listed is listed again, by what begins anew.
func TestDumpBeginsAnew(t *testing.T) {
	var seen []int // with each beginning
	err := dumpFamily(unix.RTM_GETLINK, unix.RTM_NEWLINK, nl.NewIfInfomsg(unix.AF_UNSPEC), func() func([]byte) error {
		seen = append(seen, 0)
		this := len(seen)
		return func([]byte) error {
			if seen[this-1]++; this == 1 {
				return nlmsg.ErrInterrupted
			}
			return nil
		}
	})
	if err != nil || len(seen) != 2 || seen[0] != 1 || seen[1] == 0 {
		t.Errorf("it listed %v; %v", seen, err)
	}
}
