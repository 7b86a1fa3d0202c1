package analysis

import "strings"

// fastPathMeter is called "accel" in records, which is what the fast path was called at first.
const fastPathMeter = "accel"

// FastPath is what became of the packets of an arm that has a fast path, on all
// machines together: one that is carried from end to end counts where it leaves
// its pod, and where it arrives.
type FastPath struct {
	// Packets that the programs saw, by what became of them: "carried_out",
	// "carried_in", and "slow_..." by the reason. Programs count large packets
	// before they are cut.
	Packets map[string]int64 `json:"packets"`
	// SlowIngress counts the slow packets on their way into a pod; the others
	// came out of one. Nil: the record is of a time when that was not told apart.
	SlowIngress map[string]int64 `json:"into,omitempty"`
	// Carried is the share of all these that was carried, 0 to 1.
	Carried float64 `json:"carried"`
	// Flows is the most that the table of one machine held.
	Flows int64 `json:"flows"`
}

// Add adds packets by the key of a count, which ends with the way that they went:
// "slow_ttl_in". In older records it does not, if they were slow.
func (f *FastPath) Add(key string, n int64) {
	if f.Packets == nil {
		f.Packets = map[string]int64{}
	}
	what, into := strings.CutSuffix(key, "_in")
	if !into {
		what = strings.TrimSuffix(key, "_out")
	}
	if what == key || !strings.HasPrefix(key, "slow_") {
		f.Packets[key] += n
		return
	}
	f.Packets[what] += n
	if f.SlowIngress == nil {
		f.SlowIngress = map[string]int64{}
	}
	if !into {
		n = 0
	}
	f.SlowIngress[what] += n
}

// Total is the number of packets.
func (f *FastPath) Total() int64 {
	sum := int64(0)
	for _, n := range f.Packets {
		sum += n
	}
	return sum
}

// CarriedPackets is the number of those that were carried.
func (f *FastPath) CarriedPackets() int64 { return f.Packets["carried_out"] + f.Packets["carried_in"] }

// Share is the share of all packets that was carried, 0 to 1; 0: there were none.
func (f *FastPath) Share() float64 {
	return float64(f.CarriedPackets()) / float64(max(f.Total(), 1))
}

// fastPath sums what became of an arm's packets; nil where no fast path was read.
func (d *armData) fastPath() *FastPath {
	out := new(FastPath)
	for _, m := range d.selectMeters(fastPathMeter, false) {
		for key, n := range m.Values {
			switch key = strings.TrimPrefix(key, fastPathMeter+"/"); key {
			case "flows":
				out.Flows = max(out.Flows, n)
			default:
				out.Add(key, n)
			}
		}
	}
	if len(out.Packets) == 0 {
		return nil
	}
	out.Carried = out.Share()
	return out
}
