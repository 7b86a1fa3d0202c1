package topology

import (
	"cmp"
	"slices"

	"github.com/venturi-net/venturi/internal/nlmsg"
	"golang.org/x/sys/unix"
)

// DeviceConf are the settings that a device has for IPv4 (net.ipv4.conf.*), as of one moment. Some of
// them decide what the host takes for a packet with a wrong source, such as src_valid_mark and
// accept_local, and a change of most of them is not announced.
type DeviceConf struct {
	device int
	values string
	// Shared: packets of several pods or peers pass the device.
	Shared bool
}

// confOf finds the settings in the attributes of a device: 32 bits each.
func confOf(attrs []byte) string {
	return string(nlmsg.FindIn(attrs, unix.IFLA_AF_SPEC, unix.AF_INET, unix.IFLA_INET_CONF))
}

// deviceConfs are the settings of the devices by which the host receives packets of some pods and peers.
// Packets of IPv6 do not depend on them.
func (r *reader) deviceConfs(topo Topology) (all []DeviceConf) {
	if r.family != IPv4 {
		return nil
	}
	users := map[int]int{}
	for _, p := range topo.Pods {
		users[p.NeighDevice]++
		if p.NeighDevice != p.Device {
			users[p.NeighDevice]++ // a bridge
		}
	}
	for _, p := range topo.NextHops {
		users[p.Device]++
		users[p.WireDevice] += 2
	}
	for _, m := range r.links {
		if len(m) < unix.SizeofIfInfomsg {
			continue
		}
		index := linkIndex(m)
		if n := users[index]; n > 0 {
			all = append(all, DeviceConf{index, confOf(m[unix.SizeofIfInfomsg:]), n > 1})
		}
	}
	slices.SortFunc(all, func(a, b DeviceConf) int { return cmp.Compare(a.device, b.device) })
	return all
}

// ConfsDiffer tells whether a device of both topologies has other settings in one than in the other.
func ConfsDiffer(was, is Topology) bool {
	return slices.ContainsFunc(was.DeviceConfs, func(before DeviceConf) bool {
		i, there := slices.BinarySearchFunc(is.DeviceConfs, before.device, func(c DeviceConf, device int) int {
			return cmp.Compare(c.device, device)
		})
		return there && is.DeviceConfs[i].values != before.values
	})
}

// ConfsChanged tells whether one of some devices has other settings than [Read] found.
func (p *Poller) ConfsChanged(some []DeviceConf) bool {
	return slices.ContainsFunc(some, func(was DeviceConf) bool {
		now, err := p.querier.conf(was.device)
		return err == nil && now != was.values // a device that has gone is announced
	})
}

// conf reads the settings of a device.
func (q *rtnlQuerier) conf(device int) (string, error) {
	q.startDevice(device)
	attrs, err := q.RoundTrip(unix.SizeofIfInfomsg)
	return confOf(attrs), err
}
