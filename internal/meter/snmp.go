package meter

import (
	"bytes"
	"fmt"
)

// counters reads chosen fields of the two-line tables in a namespace's
// /proc/net/snmp and netstat, summed over the ends of an arm.
type counters struct {
	armFiles
	fields []field
	text   string
	add    func(b []byte, dst []int64) error // made once: a sample allocates nothing
}

// field is one counter: the table's prefix ("Tcp:"), its column, our key.
type field struct{ table, column, key string }

// openCounters opens the named files in the ends of each arm.
func openCounters(s Setup, fields []field, text string, names ...string) (Sampler, error) {
	files, err := openArmFiles(s, func(a Arm) []string { return a.Ends }, names...)
	if err != nil {
		return nil, err
	}
	add := func(b []byte, dst []int64) error { return addTables(b, fields, dst) }
	return &counters{files, fields, text, add}, nil
}

func (m *counters) Keys() []string {
	keys := make([]string, len(m.fields))
	for i, f := range m.fields {
		keys[i] = f.key
	}
	return keys
}

func (m *counters) Resolution() string { return m.text }

func (m *counters) Sample(arm int, dst []int64) error { return m.sum(arm, dst, m.add) }

// addTables adds to dst the values of the fields that b has. A table is two
// lines that start with the same word: names, then values. A field that the
// kernel does not have stays 0; columns are found by name each time, because
// kernels add them in the middle.
func addTables(b []byte, fields []field, dst []int64) error {
	for len(b) > 0 {
		var names, values []byte
		names, b = line(b)
		values, b = line(b)
		head := bytes.IndexByte(names, ' ')
		if head < 0 || !bytes.HasPrefix(values, names[:head+1]) {
			return fmt.Errorf("line %.40q and the one after it are not a table", names)
		}
		table := names[:head]
		if !wanted(table, fields) {
			continue
		}
		if err := addTable(table, names[head+1:], values[head+1:], fields, dst); err != nil {
			return err
		}
	}
	return nil
}

func wanted(table []byte, fields []field) bool {
	for i := range fields {
		if string(table) == fields[i].table {
			return true
		}
	}
	return false
}

// addTable walks one table's names and values side by side.
func addTable(table, names, values []byte, fields []field, dst []int64) error {
	for len(names) > 0 {
		end := bytes.IndexByte(names, ' ')
		name := names
		if end >= 0 {
			name, names = names[:end], names[end+1:]
		} else {
			names = nil
		}
		v, rest, ok := number(values)
		if !ok {
			return fmt.Errorf("table %s has no number for %s", table, name)
		}
		values = rest
		for i := range fields {
			if string(name) == fields[i].column && string(table) == fields[i].table {
				dst[i] += v
			}
		}
	}
	return nil
}
