package meter

import (
	"errors"
	"fmt"
)

// The cpu meter counts the time for which each core was not idle, and what the
// kernel says it did in it.
//
// Busy is the span minus the idle time that the kernel's tickless idle code
// keeps: it is stamped in nanoseconds at each entry to and exit from idle,
// interrupts included, so it is exact and costs the traffic nothing. No export
// of it is good enough as it is: /proc/stat cuts it to 10 ms, and
// /proc/timer_list gives it to the nanosecond but does not say whether a core
// is in idle now, so the stretch since the last stamp may be either. A BPF
// program that runs only when asked reads the kernel's own variables; see
// tick.go. Where that cannot be, /proc/stat is the source.
//
// The classes are as fine as the kernel's accounting, on most kernels a sample
// at each timer tick. User contains guest, as in /proc/stat. Steal is the time
// in which the hypervisor ran something else: it is shown and is not in busy.
const (
	classUser = iota
	classNice
	classSystem
	classIRQ
	classSoftirq
	classSteal
	classGuest
	classes // how many
)

var classNames = [classes]string{"user", "nice", "system", "irq", "softirq", "steal", "guest"}

// cpuTimes is what one core did since boot, ns.
type cpuTimes struct {
	now   int64 // when it was read
	idle  int64 // waiting for I/O included
	class [classes]int64
}

func (t *cpuTimes) busy() int64 { return t.now - t.idle - t.class[classSteal] }

// cpuSource reads the times of all online cores.
type cpuSource interface {
	cores() []int // their numbers
	read(dst []cpuTimes) error
	resolution() string
	close() error
}

type cpu struct {
	source cpuSource
	keys   []string
	times  []cpuTimes
}

// perCore is how many keys a core has: busy and the classes.
const perCore = 1 + int(classes)

func openCPU(s Setup) (Sampler, error) {
	stat, err := openStat(s.Root, s.Cores)
	if err != nil {
		return nil, err
	}
	if s.Root != "/" {
		return newCPU(stat), nil // a fixture has no kernel to ask
	}
	tick, err := openTick(stat)
	if err != nil {
		stat.because = err
		return newCPU(stat), nil
	}
	if err := stat.close(); err != nil {
		return nil, errors.Join(err, tick.close())
	}
	return newCPU(tick), nil
}

// newCPU names the keys: "busy", "user", ... of all cores together, then
// "cpu0/busy", "cpu0/user", ... of each.
func newCPU(source cpuSource) *cpu {
	cores := source.cores()
	m := &cpu{source: source, times: make([]cpuTimes, len(cores))}
	names := append([]string{"busy"}, classNames[:]...)
	m.keys = append(m.keys, names...)
	for _, core := range cores {
		for _, name := range names {
			m.keys = append(m.keys, fmt.Sprintf("cpu%d/%s", core, name))
		}
	}
	return m
}

func (m *cpu) Keys() []string     { return m.keys }
func (m *cpu) Resolution() string { return m.source.resolution() }
func (m *cpu) Close() error       { return m.source.close() }

func (m *cpu) Sample(_ int, dst []int64) error {
	if err := m.source.read(m.times); err != nil {
		return err
	}
	clear(dst[:perCore])
	for i := range m.times {
		t := &m.times[i]
		of := dst[(i+1)*perCore:][:perCore]
		of[0] = t.busy()
		copy(of[1:], t.class[:])
		for k, v := range of {
			dst[k] += v
		}
	}
	return nil
}
