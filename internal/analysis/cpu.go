package analysis

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/stats"
	"github.com/venturi-net/venturi/result"
)

const (
	cpuMeter     = "cpu"
	softnetMeter = "softnet"
	// onePacket is the size up to which a message of a ping-pong is a packet on
	// any path of a usual MTU.
	onePacket = 1400
)

// perUnit says what the CPU time of a cell is divided by.
func perUnit(c result.Cell) string {
	switch {
	case c.Metric == result.CPUPerPacket:
		return PerPacket
	case c.Metric == result.CPUPerMessage:
		return PerMessage
	case c.Metric == result.CPUPerGB:
		return PerGB
	case c.Metric == result.Connections:
		return PerConnection
	case isPingPong(c.Metric) && max(c.Size, c.Response) > onePacket:
		return PerMessage
	case isPingPong(c.Metric):
		return PerPacket
	case c.Size >= result.LeastBytesSize:
		return PerGB
	case c.Transport == "udp":
		return PerPacket
	}
	return PerMessage
}

// isPingPong: a request and its reply are a message each, whatever their size. See [work].
func isPingPong(m result.Metric) bool {
	return m == result.OneWay || m == result.RoundTrip || m == result.Transactions
}

// work counts the units that a slice did while meters ran, the head included.
func work(per string, s *result.Slice, fragments int) float64 {
	switch {
	case s.Latency != nil && per == PerConnection:
		return float64(s.Latency.Replies + s.Latency.HeadReplies)
	case s.Latency != nil:
		return 2 * float64(s.Latency.Replies+s.Latency.HeadReplies)
	case s.Stream == nil:
		return 0
	case per == PerGB:
		return float64(s.Stream.RecvBytes) / 1e9
	case per == PerPacket:
		return float64(s.Stream.RecvMessages) * float64(fragments)
	}
	return float64(s.Stream.RecvMessages)
}

// cpu fills in what the row's traffic cost, and its ratio to the baseline.
func (a *analyzer) cpu(r *Row, c result.Cell, d, base *armData) {
	if c.Metric == result.RoundTrip && c.Background == nil {
		return // most of it is the wait for the next request to be due
	}
	per := perUnit(c)
	cost := d.costs(per, r.Fragments)
	if len(cost) == 0 {
		return
	}
	out := &CPU{Unit: per, Classes: map[string]float64{}, ByCore: map[string]float64{}}
	for _, series := range slices.Sorted(maps.Keys(cost)) {
		out.BySeries = append(out.BySeries, cost[series])
	}
	out.Cost = stats.Median(out.BySeries)
	d.classes(out, per, r.Fragments)
	if r.Arm.Name != a.baseline.Name && base != nil {
		// Per message: a path that cuts messages into more packets does not get
		// cheaper by it.
		logs := logRatios(d.costs(per, 1), base.costs(per, 1))
		if ratio, ok := stats.FromSeries(logs, a.design); ok {
			out.Ratio = &ratio
		}
	}
	r.CPU = out
}

// logRatios pairs two figures by series, in the order of series.
func logRatios(arm, base map[int]float64) []float64 {
	var series []int
	for s := range arm {
		if base[s] > 0 && arm[s] > 0 {
			series = append(series, s)
		}
	}
	slices.Sort(series)
	var logs []float64
	for _, s := range series {
		logs = append(logs, math.Log(arm[s]/base[s]))
	}
	return logs
}

// costs gives busy ns per unit of work, by series.
func (d *armData) costs(per string, fragments int) map[int]float64 {
	units := d.units(per, fragments)
	busy := map[int]int64{}
	for _, m := range d.selectMeters(cpuMeter, d.sharedCores) {
		busy[m.Series] += total(m, "busy")
	}
	out := map[int]float64{}
	for series, ns := range busy {
		if units[series] > 0 && ns > 0 {
			out[series] = float64(ns) / units[series]
		}
	}
	return out
}

func (d *armData) units(per string, fragments int) map[int]float64 {
	units := map[int]float64{}
	for _, s := range d.slices {
		units[s.Series] += work(per, s, fragments)
	}
	return units
}

// selectMeters returns the records of one meter. Machines that share its counters read the same
// ones, so one of them stands for all. A series of which a machine has no counts
// is left out: the others' counts alone would be set against all its work.
func (d *armData) selectMeters(name string, shared bool) []*result.Meter {
	var out []*result.Meter
	first, machines := "", map[string]bool{}
	for _, m := range d.meters {
		if m.Name == name && (first == "" || m.Machine < first) {
			first = m.Machine
		}
	}
	read := map[int]map[string]bool{} // by series, the machines that have counts
	for _, m := range d.meters {
		if m.Name != name || shared && m.Machine != first {
			continue
		}
		machines[m.Machine] = true
		if len(m.Values) == 0 {
			continue
		}
		if read[m.Series] == nil {
			read[m.Series] = map[string]bool{}
		}
		read[m.Series][m.Machine] = true
		out = append(out, m)
	}
	return slices.DeleteFunc(out, func(m *result.Meter) bool { return len(read[m.Series]) < len(machines) })
}

// total reads a class over all cores: the meter's own sum if it has one, else
// the sum of its cores.
func total(m *result.Meter, class string) int64 {
	for _, key := range []string{class, "cpu/" + class} {
		if v, ok := m.Values[key]; ok {
			return v
		}
	}
	sum := int64(0)
	for _, v := range m.Cores(class) {
		sum += v
	}
	return sum
}

// classes splits the cost by class, and the time by core and machine.
func (d *armData) classes(out *CPU, per string, fragments int) {
	units, wall := 0.0, 0.0
	bySeries, seen := d.units(per, fragments), map[int]bool{}
	byClass, byCore, byMachine := map[string]int64{}, map[string]int64{}, map[string]int64{}
	ofMachine := map[string]map[string]int64{} // by class
	walls := map[string]float64{}
	for _, m := range d.selectMeters(cpuMeter, d.sharedCores) {
		walls[m.Machine] += float64(m.WallNs)
		out.Resolution = m.Resolution
		if !seen[m.Series] {
			seen[m.Series] = true
			units += bySeries[m.Series]
		}
		byMachine[m.Machine] += total(m, "busy")
		if ofMachine[m.Machine] == nil {
			ofMachine[m.Machine] = map[string]int64{}
		}
		for class := range classesOf(m) {
			ns := total(m, class)
			byClass[class] += ns
			ofMachine[m.Machine][class] += ns
		}
		for core, v := range m.Cores("busy") {
			if d.sharedCores {
				byCore[core] += v
			} else {
				byCore[m.Machine+"/"+core] += v
			}
		}
	}
	for _, w := range walls {
		wall = max(wall, w)
	}
	if wall <= 0 || units <= 0 {
		return
	}
	out.Classes = costOf(byClass, units)
	for core, ns := range byCore {
		of := wall
		if machine, _, ok := strings.Cut(core, "/"); ok && walls[machine] > 0 {
			of = walls[machine]
		}
		out.ByCore[core] = float64(ns) / of
	}
	busy := int64(0)
	for machine, ns := range byMachine {
		busy += ns
		if len(byMachine) > 1 {
			if out.ByMachine == nil {
				out.ByMachine, out.MachineClasses, out.MachineSteal = map[string]float64{}, map[string]map[string]float64{}, map[string]float64{}
			}
			out.ByMachine[machine] = float64(ns) / units
			out.MachineClasses[machine] = costOf(ofMachine[machine], units)
			out.MachineSteal[machine] = float64(ofMachine[machine][stealClass]) / max(walls[machine], 1)
		}
	}
	out.Cores = float64(busy) / wall
	out.Steal = float64(byClass[stealClass]) / wall
}

// stealClass is what the hypervisor took: no cost of the traffic.
const stealClass = "steal"

// costOf gives the cost of each class for a unit of work.
func costOf(byClass map[string]int64, units float64) map[string]float64 {
	out := map[string]float64{}
	for class, ns := range byClass {
		if class != stealClass {
			out[class] = float64(ns) / units
		}
	}
	return out
}

// classesOf lists the classes other than busy that a line has.
func classesOf(m *result.Meter) map[string]bool {
	out := map[string]bool{}
	for key := range m.Values {
		core, class, ok := strings.Cut(key, "/")
		if !ok {
			class = core
		}
		if class != "busy" && class != "idle" {
			out[class] = true
		}
	}
	return out
}

// counters sums the other meters over series, and over machines where each has
// counters of its own; of gives those of each then.
func (d *armData) counters() (sum map[string]int64, of map[string]map[string]int64) {
	add := func(m *result.Meter) {
		for k, v := range m.Values {
			if sum == nil {
				sum, of = map[string]int64{}, map[string]map[string]int64{}
			}
			if of[m.Machine] == nil {
				of[m.Machine] = map[string]int64{}
			}
			sum[k] += v
			of[m.Machine][k] += v
		}
	}
	for _, m := range d.selectMeters(softnetMeter, d.sharedCores) {
		add(m)
	}
	for _, m := range d.meters {
		if isSum(m) {
			add(m)
		}
	}
	if d.sharedCores {
		of = nil
	}
	return sum, of
}
