package doctor

import (
	"maps"
	"slices"
	"time"

	"github.com/venturi-net/venturi/internal/host"
)

// Counters are readings that only count up.
type Counters struct {
	Time      time.Time
	CPUs      map[int]host.CPUCounters
	Devices   map[deviceKey]map[string]uint64
	Protocols map[host.NamespaceID]map[string]uint64
}

type deviceKey struct {
	netns host.NamespaceID
	index int
}

// hasInterval tells whether there are two readings, some time apart.
func (v *View) hasInterval() bool { return v.Second.Time.After(v.First.Time) }

func (v *View) seconds() float64 { return v.Second.Time.Sub(v.First.Time).Seconds() }

// grew is by how much a counter grew between the two readings; 0 if it began anew.
func grew[T uint32 | uint64](before, after T) T {
	if after < before {
		return 0
	}
	return after - before
}

// countedCPUs are the numbers of the CPUs of both readings: those of one that came online
// between them count from when the machine was started.
func (v *View) countedCPUs() (both []int) {
	for _, n := range slices.Sorted(maps.Keys(v.Second.CPUs)) {
		if _, known := v.First.CPUs[n]; known {
			both = append(both, n)
		}
	}
	return both
}

func (v *View) deviceGrew(s *Netns, d *host.NetDevice, counter string) uint64 {
	key := deviceKey{s.ID, d.Index}
	before, known := v.First.Devices[key][counter]
	if !known {
		return 0
	}
	return grew(before, v.Second.Devices[key][counter])
}

func (v *View) protocolGrew(s *Netns, counter string) uint64 {
	before, known := v.First.Protocols[s.ID][counter]
	if !known {
		return 0
	}
	return grew(before, v.Second.Protocols[s.ID][counter])
}

// count reads all counters.
func (v *View) count(r host.Reader) Counters {
	c := Counters{Time: time.Now(), CPUs: r.CPUCounters(), Devices: map[deviceKey]map[string]uint64{}, Protocols: map[host.NamespaceID]map[string]uint64{}}
	for _, s := range v.Netns {
		again := v.First.Devices != nil
		_ = host.Do(s.Path, func() error { // one that went away counts no more
			if id, err := host.ID("/proc/thread-self/ns/net"); err != nil || id != s.ID {
				return err
			}
			c.Protocols[s.ID] = r.Protocols()
			devices := s.Devices
			if again {
				fresh, err := host.NetDevices("")
				if err != nil {
					return err
				}
				devices = fresh
			}
			for _, d := range devices {
				c.Devices[deviceKey{s.ID, d.Index}] = d.Counters
			}
			return nil
		})
	}
	return c
}
