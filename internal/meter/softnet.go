package meter

import "fmt"

// softnetKeys are the columns of /proc/net/softnet_stat that tell whether
// receiving kept up, summed over all CPUs: packets, packets dropped because a
// CPU's backlog was full, and times that the softirq left work behind because
// its budget or time was over.
var softnetKeys = []string{"softnet/processed", "softnet/dropped", "softnet/squeezed"}

type softnet struct {
	f     *file
	cores []int
}

// openSoftnet: the counters are the cores', so they count every namespace.
func openSoftnet(s Setup) (Sampler, error) {
	f, err := openFile(s.Root, "proc/net/softnet_stat")
	if err != nil {
		return nil, err
	}
	return &softnet{f, s.Cores}, nil
}

func (m *softnet) Keys() []string     { return softnetKeys }
func (m *softnet) Resolution() string { return "counts of the machine's cores, every namespace" }
func (m *softnet) Close() error       { return m.f.close() }

func (m *softnet) Sample(_ int, dst []int64) error {
	b, err := m.f.read()
	if err != nil {
		return err
	}
	return parseSoftnet(b, m.cores, dst)
}

// parseSoftnet sums the first three columns of all lines; they are hexadecimal
// and, being 32 bit, wrap: dst holds sums that may go down by 2^32 times, which
// takes hours at any rate that is measured here.
func parseSoftnet(b []byte, cores []int, dst []int64) error {
	clear(dst)
	for nth := 0; len(b) > 0; nth++ {
		var l []byte
		l, b = line(b)
		if !includes(cores, softnetCore(l, nth)) {
			continue
		}
		for col := range softnetKeys {
			v, rest, ok := hex(l)
			if !ok {
				return fmt.Errorf("parse softnet_stat: column %d of %q is not a number", col, l)
			}
			dst[col] += v
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
