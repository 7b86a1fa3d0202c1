package meter

import (
	"bytes"
	"fmt"
	"slices"
	"time"
)

// userTick is the unit of /proc/stat: USER_HZ is 100 on every architecture
// that Go runs on.
const userTick = int64(10 * time.Millisecond)

// stat reads /proc/stat: the coarse source of CPU times, and the check of the
// fine one.
type stat struct {
	f       *file
	list    []int
	because error // why the fine source is not used
	start   time.Time
}

func openStat(root string, only []int) (*stat, error) {
	f, err := openFile(root, "proc/stat")
	if err != nil {
		return nil, err
	}
	s := &stat{f: f, start: time.Now()}
	b, err := f.read()
	if err == nil {
		s.list, err = statCores(b, only)
	}
	if err != nil {
		f.close()
		return nil, err
	}
	return s, nil
}

func (s *stat) cores() []int { return s.list }
func (s *stat) close() error { return s.f.close() }

func (s *stat) resolution() string {
	text := "busy and classes: 10 ms units of /proc/stat"
	if s.because != nil {
		text += " (no exact time: " + s.because.Error() + ")"
	}
	return text
}

func (s *stat) read(dst []cpuTimes) error {
	b, err := s.f.read()
	if err != nil {
		return err
	}
	if err := parseStat(b, s.list, dst); err != nil {
		return err
	}
	now := time.Since(s.start).Nanoseconds()
	for i := range dst {
		dst[i].now = now
	}
	return nil
}

// statCores lists the cores that have a line, or those of them that are asked for.
func statCores(b []byte, only []int) ([]int, error) {
	var cores []int
	for len(b) > 0 {
		var l []byte
		l, b = line(b)
		if core, _, ok := statLine(l); ok && includes(only, core) {
			cores = append(cores, core)
		}
	}
	if len(cores) == 0 || len(only) > len(cores) {
		return nil, fmt.Errorf("parse /proc/stat: it names the cores %v, of %v", cores, only)
	}
	return cores, nil
}

// includes tells whether a core is one of a machine's; none: it has all.
func includes(cores []int, core int) bool { return len(cores) == 0 || slices.Contains(cores, core) }

// statLine takes the core's number off its line; ok is false for other lines,
// that of all cores included.
func statLine(l []byte) (core int, rest []byte, ok bool) {
	after, found := bytes.CutPrefix(l, []byte("cpu"))
	if !found || len(after) == 0 || after[0] < '0' || after[0] > '9' {
		return 0, nil, false
	}
	n, rest, ok := number(after)
	return int(n), rest, ok
}

// parseStat reads the times of the wanted cores, which must all be there: a
// core that went offline makes sums meaningless. It leaves now alone.
func parseStat(b []byte, want []int, dst []cpuTimes) error {
	found := 0
	for len(b) > 0 && found < len(want) {
		var l []byte
		l, b = line(b)
		core, rest, ok := statLine(l)
		if !ok || core != want[found] {
			continue
		}
		// user nice system idle iowait irq softirq steal guest guest_nice
		var column [10]int64
		for i := range column {
			v, next, ok := number(rest)
			if !ok {
				return fmt.Errorf("parse /proc/stat: line %.60q has %d columns, not %d", l, i, len(column))
			}
			column[i], rest = v*userTick, next
		}
		t := &dst[found]
		t.idle = column[3] + column[4]
		t.class = [classes]int64{
			classUser: column[0], classNice: column[1], classSystem: column[2], classIRQ: column[5],
			classSoftirq: column[6], classSteal: column[7], classGuest: column[8] + column[9],
		}
		found++
	}
	if found < len(want) {
		return fmt.Errorf("parse /proc/stat: core %d is missing", want[found])
	}
	return nil
}
