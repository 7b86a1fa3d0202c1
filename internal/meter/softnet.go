package meter

import "fmt"

// softnetKeys are the columns of /proc/net/softnet_stat that tell whether
// receiving kept up, summed over all CPUs: packets, packets dropped because a
// CPU's backlog was full, and times that the softirq left work behind because
// its budget or time was over.
var softnetKeys = [...]string{"softnet/processed", "softnet/dropped", "softnet/squeezed"}

// softnet adds up by how much each core's counters have grown: they have 32 bits, and wrap.
type softnet struct {
	f         *file
	cores     []int
	last, now []uint32 // as they are read: a place a key for each core
	sum       [len(softnetKeys)]int64
}

// openSoftnet: the counters are the cores', so they count every namespace.
func openSoftnet(s Setup) (Sampler, error) {
	f, err := openFile(s.Root, "proc/net/softnet_stat")
	if err != nil {
		return nil, err
	}
	return &softnet{f: f, cores: s.Cores}, nil
}

func (m *softnet) Keys() []string     { return softnetKeys[:] }
func (m *softnet) Resolution() string { return "counts of the machine's cores, every namespace" }
func (m *softnet) Close() error       { return m.f.close() }

func (m *softnet) Sample(_ int, dst []int64) error {
	b, err := m.f.read()
	if err != nil {
		return err
	}
	return m.count(b, dst)
}

// count takes what the file holds. Where cores have come or gone, the counters of one cannot be told from
// another's on every kernel, so the sample fails, and the next begins anew.
func (m *softnet) count(b []byte, dst []int64) error {
	if err := m.parse(b); err != nil {
		return err
	}
	before := m.last
	m.last, m.now = m.now, m.last
	switch {
	case before == nil:
		for i, v := range m.last {
			m.sum[i%len(m.sum)] += int64(v)
		}
	case len(before) != len(m.last):
		return fmt.Errorf("read softnet_stat: %d cores before, %d now", len(before)/len(m.sum), len(m.last)/len(m.sum))
	default:
		for i, v := range m.last {
			m.sum[i%len(m.sum)] += int64(v - before[i])
		}
	}
	copy(dst, m.sum[:])
	return nil
}

// parse reads the first columns of each core's line, which are hexadecimal.
func (m *softnet) parse(b []byte) error {
	if m.now == nil {
		m.now = []uint32{} // nil are the counters before the first sample
	}
	m.now = m.now[:0]
	for nth := 0; len(b) > 0; nth++ {
		var l []byte
		l, b = line(b)
		if !includes(m.cores, softnetCore(l, nth)) {
			continue
		}
		for col := range softnetKeys {
			v, rest, ok := hex(l)
			if !ok {
				return fmt.Errorf("parse softnet_stat: column %d of %q is not a number", col, l)
			}
			m.now = append(m.now, uint32(v))
			l = rest
		}
	}
	return nil
}

// softnetCore is the core of a line. Newer kernels tell it (from 5.10); before, lines stand in
// the order of the cores that are on.
func softnetCore(l []byte, nth int) int {
	const column = 12
	for i := 0; ; i++ {
		v, rest, ok := hex(l)
		if !ok {
			return nth
		}
		if i == column {
			return int(v)
		}
		l = rest
	}
}

// hex reads the hexadecimal number at the start of b after blanks.
func hex(b []byte) (n int64, rest []byte, ok bool) {
	for len(b) > 0 && b[0] == ' ' {
		b = b[1:]
	}
	i := 0
	for ; i < len(b); i++ {
		switch c := b[i]; {
		case c >= '0' && c <= '9':
			n = n<<4 | int64(c-'0')
		case c >= 'a' && c <= 'f':
			n = n<<4 | int64(c-'a'+10)
		default:
			return n, b[i:], i > 0
		}
	}
	return n, nil, i > 0
}
