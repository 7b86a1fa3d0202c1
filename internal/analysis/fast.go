package analysis

import "strings"

const accelMeter = "accel"

// FastPath is what became of the packets of an arm that has a fast path, on all
// machines together: one that is carried from end to end counts where it leaves
// its pod, and where it arrives.
type FastPath struct {
	// Packets that the programs saw, by what became of them: "carried_out",
	// "carried_in", and "slow_..." by the reason. Programs count large packets
	// before they are cut.
	Packets map[string]int64 `json:"packets"`
	// Carried is the share of all these that was carried, 0 to 1.
	Carried float64 `json:"carried"`
	// Flows is the most that the table of one machine held.
	Flows int64 `json:"flows"`
}

// Seen is how many packets there are.
func (f *FastPath) Seen() int64 {
	sum := int64(0)
	for _, n := range f.Packets {
		sum += n
	}
	return sum
}

// fastPath sums what became of an arm's packets; nil where no fast path was read.
func (d *armData) fastPath() *FastPath {
	out := &FastPath{Packets: map[string]int64{}}
	for _, m := range d.chosen(accelMeter, false) {
		for key, n := range m.Values {
			switch key = strings.TrimPrefix(key, accelMeter+"/"); key {
			case "flows":
				out.Flows = max(out.Flows, n)
			default:
				out.Packets[key] += n
			}
		}
	}
	if len(out.Packets) == 0 {
		return nil
	}
	if seen := out.Seen(); seen > 0 {
		out.Carried = float64(out.Packets["carried_out"]+out.Packets["carried_in"]) / float64(seen)
	}
	return out
}
