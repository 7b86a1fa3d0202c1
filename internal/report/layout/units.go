package layout

import (
	"slices"

	"github.com/venturi-net/venturi/result"
)

// fixedUnit is a unit that a whole row of a table is in, whatever its size.
type fixedUnit struct {
	name   string
	factor float64 // of the base unit: 1e9 bit/s are one Gb/s
}

// The units of each metric, the usual one first. A stream of small messages is
// measured in messages; as a rate of bytes it is the same figure times their size.
var (
	timeUnits   = []fixedUnit{{"us", 1e3}, {"ns", 1}, {"ms", 1e6}}
	streamUnits = []fixedUnit{{"Mb/s", 1e6}, {"Gb/s", 1e9}, {"kb/s", 1e3}, {"MB/s", 8e6}}
	requestUnit = fixedUnit{"req/s", 1}
	connectUnit = fixedUnit{"conn/s", 1}
	messageUnit = fixedUnit{"msg/s", 1}
)

// Units names the units in which a table may show a metric, the usual one first.
func Units(m result.Metric) []string {
	var names []string
	for _, u := range unitsOf(m) {
		names = append(names, u.name)
	}
	return names
}

func unitsOf(m result.Metric) []fixedUnit {
	switch m {
	case result.OneWay, result.RoundTrip:
		return timeUnits
	case result.CPUPerPacket, result.CPUPerMessage:
		return []fixedUnit{{"ns", 1}, {"us", 1e3}}
	case result.CPUPerGB:
		return []fixedUnit{{"s/GB", 1e9}}
	case result.Transactions:
		return []fixedUnit{requestUnit}
	case result.Connections:
		return []fixedUnit{connectUnit}
	}
	return append(slices.Clone(streamUnits), messageUnit)
}

// inUnit gives a figure of a cell in one of its units; false for a unit that
// it has not.
func inUnit(c result.Cell, v float64, unit string) (float64, bool) {
	i := slices.IndexFunc(unitsOf(c.Metric), func(u fixedUnit) bool { return u.name == unit })
	if i < 0 || c.Size < 1 {
		return 0, false
	}
	perMessage := 8 * float64(c.Size) // bits
	switch u := unitsOf(c.Metric)[i]; {
	case c.Metric == result.Messages && u != messageUnit:
		return v * perMessage / u.factor, true
	case c.Metric == result.Bandwidth && u == messageUnit:
		return v / perMessage, true
	default:
		return v / u.factor, true
	}
}
