package meter

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/venturi-net/venturi/internal/host"
)

// The threads meter tells which threads of the machine used CPU time: those of the kernel
// (ksoftirqd, vhost, kworker), of a switch or a virtual machine, and of the loads. A packet
// that is carried in an interrupt is in the time of the thread that was interrupted, which the
// cpu meter's classes show.
type threads struct {
	root  string
	cores []int
	tids  map[int]bool // by number: those that are not looked for any more
	list  []thread
	keys  []string
	index map[string]int // of the list, by key
	// surveys is in how many more samples all threads are read. After them only those are
	// that have run: a machine has hundreds of others.
	surveys int
	samples int
	limit   int // threads that are read at once
	leftOut bool
}

type thread struct {
	id          int
	f           *file // nil: it has ended, or not run so far, and is not read
	last        int64 // what it had used when it was last seen
	offset      int64 // what it used while it was not read, which last is without
	runs        bool  // it has used something since it was first seen
	firstSample int   // samples that were taken before
}

const (
	// mostThreads bounds the files that are held open, and the time that a sample takes.
	mostThreads = 2048
	// idleSamples is how many samples show that a thread is idle: those around one slice.
	idleSamples = 3
	// leastThread is the part of the time from which a thread is worth its name.
	leastThread = 0.001
	// surveySamples is how many samples of each arm look at all threads: those of two slices.
	surveySamples = 4
)

// openThreads finds no thread yet: those of the loads start after it.
func openThreads(s Setup) (Sampler, error) {
	if _, err := os.Stat(filepath.Join(s.Root, "proc")); err != nil {
		return nil, err
	}
	return &threads{root: s.Root, cores: s.Cores, tids: map[int]bool{}, index: map[string]int{}, surveys: surveySamples * len(s.Arms), limit: mostThreads}, nil
}

func (m *threads) Keys() []string { return m.keys }

func (m *threads) Resolution() string {
	text := "CPU time of threads that ran in the first two rounds: as the scheduler books it, for a thread that runs up to a tick late"
	if m.leftOut {
		text += fmt.Sprintf("; only the %d busiest threads are read", m.limit)
	}
	return text
}

// Least is of [sparse].
func (m *threads) Least() float64 { return leastThread }

// Refresh is of [growing]. Threads that end meanwhile are left out. Where there are too many
// threads, the idle ones make room for the busiest of the others.
func (m *threads) Refresh() error {
	found, err := m.unread()
	if err != nil {
		return err
	}
	if m.open()+len(found) > m.limit {
		m.leftOut = true
		m.closeIdle()
		if found, err = m.unread(); err != nil {
			return err
		}
		found = m.busiest(found)
	}
	for _, t := range found[:min(len(found), m.limit-m.open())] {
		m.tids[t.id] = m.add(t.process, t.id)
	}
	return nil
}

// threadID is a thread and the process that it belongs to.
type threadID struct{ process, id int }

// unread lists the threads that are not in the list.
func (m *threads) unread() (found []threadID, err error) {
	processes, err := numbers(filepath.Join(m.root, "proc"))
	if err != nil {
		return nil, err
	}
	for _, process := range processes {
		ids, err := numbers(filepath.Join(m.root, "proc", strconv.Itoa(process), "task"))
		if err != nil {
			continue
		}
		for _, id := range ids {
			if !m.tids[id] && m.owns(process, id) {
				found = append(found, threadID{process, id})
			}
		}
	}
	return found, nil
}

// open counts the threads that are read.
func (m *threads) open() (n int) {
	for i := range m.list {
		if m.list[i].f != nil {
			n++
		}
	}
	return n
}

// closeIdle closes the threads that have not run. They may run for a later arm, so they are
// looked for again.
func (m *threads) closeIdle() {
	for i := range m.list {
		if t := &m.list[i]; t.f != nil && !t.runs && m.samples-t.firstSample >= idleSamples {
			_ = t.close() // it was only read
			delete(m.tids, t.id)
		}
	}
}

// busiest sorts threads by the share of their lives that they spent on a CPU: an old thread
// has used more time than a load's, which just began.
func (m *threads) busiest(found []threadID) []threadID {
	uptime := firstNumber(filepath.Join(m.root, "proc/uptime"))
	shares := map[threadID]float64{}
	for _, t := range found {
		task := filepath.Join(m.root, "proc", strconv.Itoa(t.process), "task", strconv.Itoa(t.id))
		age := max(uptime-startTime(filepath.Join(task, "stat")), 1/ticksPerSecond)
		shares[t] = firstNumber(filepath.Join(task, "schedstat")) / age
	}
	slices.SortStableFunc(found, func(a, b threadID) int { return cmp.Compare(shares[b], shares[a]) })
	return found
}

// ticksPerSecond is the unit of times in /proc/PID/stat, USER_HZ.
const ticksPerSecond = 100.0

// startTime reads when a thread began, in seconds after the boot; 0: unknown.
func startTime(file string) float64 {
	text, _ := os.ReadFile(file)
	// The name before may contain anything.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	const starttime = 22 - 3 // the first of these is the third
	if len(fields) <= starttime {
		return 0
	}
	ticks, _ := strconv.ParseFloat(fields[starttime], 64)
	return ticks / ticksPerSecond
}

// firstNumber reads the number that a file begins with; 0: there is none.
func firstNumber(file string) float64 {
	text, _ := os.ReadFile(file)
	first, _, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	n, _ := strconv.ParseFloat(first, 64)
	return n
}

// owns tells whether a thread may run on the machine's cores alone.
func (m *threads) owns(process, id int) bool {
	if len(m.cores) == 0 {
		return true
	}
	status, err := os.ReadFile(filepath.Join(m.root, "proc", strconv.Itoa(process), "task", strconv.Itoa(id), "status"))
	if err != nil {
		return false
	}
	_, list, found := strings.Cut(string(status), "Cpus_allowed_list:")
	list, _, _ = strings.Cut(list, "\n")
	allowed, err := host.ParseNumbers(strings.TrimSpace(list))
	return found && err == nil && !slices.ContainsFunc(allowed, func(core int) bool { return !includes(m.cores, core) })
}

// numbers lists what of a folder has a number for a name.
func numbers(folder string) ([]int, error) {
	d, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var out []int
	for _, name := range names {
		if n, err := strconv.Atoi(name); err == nil {
			out = append(out, n)
		}
	}
	return out, nil
}

// add opens a thread; false: it is gone, or the kernel does not tell its time.
func (m *threads) add(process, id int) bool {
	of := filepath.Join("proc", strconv.Itoa(process))
	task := filepath.Join(of, "task", strconv.Itoa(id))
	name, err := os.ReadFile(filepath.Join(m.root, task, "comm"))
	if err != nil {
		return false
	}
	owner, err := os.ReadFile(filepath.Join(m.root, of, "comm"))
	if err != nil {
		return false
	}
	f, err := openFile(m.root, filepath.Join(task, "schedstat"))
	if err != nil {
		return false
	}
	f.buf = f.buf[:64] // three numbers
	t := thread{id: id, f: f, firstSample: m.samples}
	t.sample()
	t.runs = false
	key := threadName(string(owner), string(name)) + "#" + strconv.Itoa(id)
	if at, known := m.index[key]; known { // it was closed meanwhile
		before := m.list[at].last
		t.offset, t.last = t.last-before, before
		m.list[at] = t
		return true
	}
	m.index[key] = len(m.list)
	m.list = append(m.list, t)
	m.keys = append(m.keys, key)
	return true
}

// threadName is the thread's name behind that of its process, where they differ. Of a worker of
// the kernel the work is left out, which is another all the time.
func threadName(process, thread string) string {
	process, thread = strings.TrimSpace(process), strings.TrimSpace(thread)
	if strings.HasPrefix(thread, "kworker/") {
		thread, _, _ = strings.Cut(thread, "-")
		return thread
	}
	if process == thread {
		return thread
	}
	return process + "/" + thread
}

func (m *threads) Sample(_ int, dst []int64) error {
	for i := range m.list {
		t := &m.list[i]
		t.sample()
		dst[i] = t.last
	}
	m.samples++
	if m.surveys--; m.surveys == 0 {
		for i := range m.list {
			if t := &m.list[i]; !t.runs {
				_ = t.close() // it was only read
			}
		}
	}
	return nil
}

// sample reads what the thread has used, unless it has ended: then it uses no more.
func (t *thread) sample() {
	if t.f == nil {
		return
	}
	b, err := t.f.read()
	n, _, ok := number(bytes.TrimSpace(b))
	if err != nil || !ok {
		_ = t.close()
		return
	}
	n -= t.offset
	t.runs = t.runs || n != t.last
	t.last = n
}

func (t *thread) close() error {
	if t.f == nil {
		return nil
	}
	err := t.f.close()
	t.f = nil
	return err
}

func (m *threads) Close() error {
	var errs []error
	for i := range m.list {
		errs = append(errs, m.list[i].close())
	}
	return errors.Join(errs...)
}
