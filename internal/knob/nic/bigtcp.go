package nic

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/setting"
)

// nicBigTCP is how large a segment that is cut or put together late may be.
var nicBigTCP = knob.Entry{
	Facts: knob.Facts{
		Name:     "nic.big_tcp",
		Title:    "The largest packet before segmentation and after merging (BIG TCP)",
		Values:   "bytes for all, such as 196608; or gso=65536,gro=65536,gso_ipv4=65536,gro_ipv4=65536; off is 65536",
		Scope:    knob.ScopeDevice,
		Helps:    []knob.Benefit{knob.Throughput, knob.CPU},
		Risk:     "tunnels on older kernels cannot be set up over it (Cilium issue 46337), or it has no effect (32942); programs that inspect packets may not accept such long ones",
		Needs:    "Linux 5.19 for IPv6 and 6.3 for IPv4; a tso_max_size of the device that is at least as large; both ends of a veth pair",
		Grade:    knob.GradeC,
		Evidence: "Cilium's documents recommend it from 100 Gb/s on; the gain is shown in a graph only",
		Undo:     "the old numbers are written back, IPv6 first: that of IPv4 follows it up to 65536",
	},
	Knob: bigTCP{deviceNumbers{
		name: "nic.big_tcp", all: true,
		// Those of IPv6 come first: to set one to 65536 or less sets that of IPv4 too.
		parts: []deviceNumber{
			{"gso", "link", "gso_max_size", leastGSO, 1<<32 - 1},
			{"gro", "link", "gro_max_size", leastGSO, mostGRO},
			{"gso_ipv4", "link", "gso_ipv4_max_size", leastGSO, 1<<32 - 1},
			{"gro_ipv4", "link", "gro_ipv4_max_size", leastGSO, mostGRO},
		},
	}},
}

const (
	plainGSO  = 65536     // without BIG TCP
	ciliumGSO = 196608    // what Cilium sets
	leastGSO  = 2048      // less is possible, and makes no sense
	mostGRO   = 8 * 65535 // GRO_MAX_SIZE of the kernel
)

type bigTCP struct{ deviceNumbers }

// maxSegment is the largest segment that the device can cut; 0 if it does not tell.
func (k bigTCP) maxSegment(m knob.Machine, found []numberValue) uint64 {
	v, err := m.Settings.Read(setting.Setting{Backend: "link", Scope: found[0].setting.Scope, Key: "tso_max_size"})
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseUint(v.String(), 10, 32)
	return n
}

// Plan is of [knob.Knob].
func (k bigTCP) Plan(m knob.Machine, t knob.Target, value string) ([]setting.Write, error) {
	found, err := k.now(m, t)
	if err != nil {
		return nil, err
	}
	text := value
	if value == "off" {
		text = strconv.Itoa(plainGSO)
	}
	writes, err := k.plan(found, text)
	if err != nil {
		return nil, err
	}
	most := k.maxSegment(m, found)
	for _, w := range writes {
		n, err := strconv.ParseUint(w.Value.String(), 10, 64)
		if err == nil && strings.HasPrefix(w.Setting.Key, "gso") && most > 0 && n > most {
			return nil, knob.BadValue(k.name, value, fmt.Errorf("the device can cut up to %d bytes: its tso_max_size", most))
		}
	}
	// What nobody asked for stays, although the kernel would move it along.
	for _, f := range found {
		ipv6 := strings.Replace(f.setting.Key, "_ipv4", "", 1)
		named := func(key string) bool {
			return slices.ContainsFunc(writes, func(w setting.Write) bool { return w.Setting.Key == key })
		}
		if ipv6 != f.setting.Key && named(ipv6) && !named(f.setting.Key) {
			writes = append(writes, setting.Write{Setting: f.setting, Value: setting.Text(f.value)})
		}
	}
	return writes, nil
}

// Range is of [knob.Ranger]: what Cilium sets, where the device can cut it.
func (k bigTCP) Range(m knob.Machine, t knob.Target) ([]string, error) {
	found, err := k.now(m, t)
	if err != nil || len(found) < len(k.parts) || k.maxSegment(m, found) < ciliumGSO {
		return nil, err
	}
	large, plain := make([]numberValue, len(found)), make([]numberValue, len(found))
	for i, f := range found {
		large[i], plain[i] = f, f
		large[i].value, plain[i].value = strconv.Itoa(ciliumGSO), strconv.Itoa(plainGSO)
	}
	return knob.OtherThan(k.spell(large), k.spell(plain))(k.spell(found)), nil
}
