package meter

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
)

// tick reads the kernel's idle bookkeeping (tick_cpu_sched) and CPU time
// accounting (kernel_cpustat) of each core, with a BPF program that hangs on
// nothing: it runs when it is asked, and copies a few hundred bytes per core.
type tick struct {
	list   []int
	online *onlineCores
	layout tickLayout
	prog   *ebpf.Program
	out    *ebpf.Map
	mem    *ebpf.Memory
	buf    []byte
	run    ebpf.RunOptions
}

// Places in kernel_cpustat, in words of 8 bytes.
const (
	statUser, statNice, statSystem, statSoftirq, statIRQ = 0, 1, 2, 3, 4
	statSteal, statGuest, statGuestNice                  = 7, 8, 9
	statWords                                            = 10
)

// openTick loads the program and holds what it reads against /proc/stat: the
// two have one origin, so a kernel whose variables mean something else shows.
func openTick(s *stat) (*tick, error) {
	layout, err := thisKernel()
	if err != nil {
		return nil, err
	}
	queues, err := findRunqueues(&layout, s.cores())
	if err != nil {
		return nil, err
	}
	t := &tick{list: s.cores(), layout: layout, buf: make([]byte, layout.stride()*len(queues))}
	if t.out, err = newOutput("venturi_cpu", len(t.buf)); err != nil {
		return nil, err
	}
	if t.online, err = openOnline("/"); err != nil {
		return nil, errors.Join(err, t.close())
	}
	if err := t.load(queues); err != nil {
		return nil, errors.Join(err, t.close())
	}
	if err := t.check(s); err != nil {
		return nil, errors.Join(err, t.close())
	}
	return t, nil
}

func (t *tick) load(queues []uint64) (err error) {
	if t.prog, err = newReader("venturi_cpu", t.layout.program(queues, t.out.FD())); err != nil {
		return err
	}
	if t.mem, err = t.out.Memory(); err != nil {
		return fmt.Errorf("map the cores' times: %w", err)
	}
	return nil
}

func (t *tick) cores() []int { return t.list }

func (t *tick) resolution() string {
	return "busy: 1 ns; steal: 1 ns, booked at ticks; classes: as the kernel accounts them, on most kernels a sample at each tick"
}

func (t *tick) close() error {
	var errs []error
	if t.prog != nil {
		errs = append(errs, t.prog.Close())
	}
	if t.online != nil {
		errs = append(errs, t.online.close())
	}
	return errors.Join(append(errs, t.out.Close())...)
}

// attempts bounds how often a read that met the kernel writing is repeated.
const attempts = 100

func (t *tick) read(dst []cpuTimes) error {
	for range attempts {
		ret, err := t.prog.Run(&t.run)
		if err != nil {
			return fmt.Errorf("run program: %w", err)
		}
		if ret != 0 {
			return errors.New("run program: a core's times cannot be read")
		}
		if _, err := t.mem.ReadAt(t.buf, 0); err != nil {
			return fmt.Errorf("read the cores' times: %w", err)
		}
		whole := true
		for i := range dst {
			whole = t.layout.decode(t.buf[t.layout.stride()*i:], &dst[i]) && whole
		}
		if whole {
			return t.online.check()
		}
	}
	return errors.New("the kernel's idle times change faster than they can be read")
}

// decode makes one core's times of what the program left; ok is false when the
// kernel was writing meanwhile: then the two copies differ or, when the writer
// itself was held up, its sequence is odd.
func (l *tickLayout) decode(b []byte, dst *cpuTimes) (ok bool) {
	size := round8(l.schedSize)
	sched, again, stat := b[:l.schedSize], b[size+8:][:l.schedSize], b[2*size+8:]
	for _, at := range [...]int{l.entry, l.sleep, l.iowait} {
		if !bytes.Equal(sched[at:at+8], again[at:at+8]) {
			return false
		}
	}
	if !bytes.Equal(sched[l.flags:][:l.flagsSize], again[l.flags:][:l.flagsSize]) {
		return false
	}
	if l.seq >= 0 && binary.NativeEndian.Uint32(sched[l.seq:])&1 != 0 {
		return false
	}
	dst.now = word(b, size)
	dst.idle = word(sched, l.sleep) + word(sched, l.iowait)
	if l.inIdle(sched) {
		// Clocks of two cores may differ by some ns.
		dst.idle += max(0, dst.now-word(sched, l.entry))
	}
	of := func(place int) int64 { return word(stat, 8*place) }
	dst.class = [classes]int64{
		classUser: of(statUser), classNice: of(statNice), classSystem: of(statSystem), classIRQ: of(statIRQ),
		classSoftirq: of(statSoftirq), classSteal: of(statSteal), classGuest: of(statGuest) + of(statGuestNice),
	}
	return true
}

func (l *tickLayout) inIdle(sched []byte) bool {
	if l.flagsSize == 1 {
		return uint64(sched[l.flags])&l.idleBit != 0
	}
	return uint64(word(sched, l.flags))&l.idleBit != 0
}

func word(b []byte, at int) int64 { return int64(binary.NativeEndian.Uint64(b[at:])) }

// check holds a read between two of /proc/stat.
func (t *tick) check(s *stat) error {
	n := len(t.list)
	before, now, after := make([]cpuTimes, n), make([]cpuTimes, n), make([]cpuTimes, n)
	if err := errors.Join(s.read(before), t.read(now), s.read(after)); err != nil {
		return err
	}
	// Idle and waiting are each cut down to a whole unit.
	const slack = 2 * userTick
	for i, core := range t.list {
		if now[i].idle < before[i].idle-userTick || now[i].idle > after[i].idle+slack {
			return fmt.Errorf("the kernel's idle time of core %d, %v, is not that of /proc/stat, %v",
				core, time.Duration(now[i].idle), time.Duration(after[i].idle))
		}
	}
	return nil
}
