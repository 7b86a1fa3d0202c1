package topology

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
)

// ConfMTU is the MTU that a device has for IPv6 alone (net.ipv6.conf.*.mtu), up to that of the device.
// Forwarding goes by it, and not by path MTUs that were learned. No change of it is announced.
type ConfMTU struct {
	device string
	mtu    int // bytes; 0: the device has no IPv6
	// OnWire: packets to peers leave by the device.
	OnWire bool
}

// confMTU reads the one of a device, and has it polled from then on. Of IPv4 there is none.
func (r *reader) confMTU(index int, onWire bool) int {
	l, known := r.byIndex[index]
	if r.family != IPv6 || !known {
		return math.MaxInt
	}
	is := ConfMTU{l.Attrs().Name, readConf(l.Attrs().Name, "mtu"), onWire}
	if !slices.Contains(r.confMTUs, is) {
		r.confMTUs = append(r.confMTUs, is)
	}
	return is.mtu
}

// readConf reads a number that a device has for IPv6; 0: there is none.
func readConf(device, name string) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/sys/net/ipv6/conf/%s/%s", device, name))
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(text))) // 0 likewise
	return n
}

// notRouter says why the routes of IPv6 by a wire may change without an announcement; "": they do not. A
// device that does not forward takes redirects. What is announced is when it begins or ends to.
func (r *reader) notRouter(wire string) string {
	if r.family != IPv6 {
		return ""
	}
	for _, of := range []string{"all", wire} {
		if readConf(of, "forwarding") == 0 {
			return fmt.Sprintf("does not forward IPv6 (net.ipv6.conf.%s.forwarding is 0)", of)
		}
	}
	return ""
}

// ConfMTUsChanged tells whether one of some differs from what [Read] found.
func (p *Poller) ConfMTUsChanged(some []ConfMTU) bool {
	return slices.ContainsFunc(some, func(was ConfMTU) bool { return readConf(was.device, "mtu") != was.mtu })
}
