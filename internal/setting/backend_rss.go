package setting

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// hashFunctions are those of the receive hash, each a bit.
var hashFunctions = []string{"toeplitz", "xor", "crc32"}

// DefaultTable is the text of a table that gives all rings the same share, in
// turn. The kernel does not tell whether somebody asked for it: written, it is
// made the default again, which follows the number of rings.
const DefaultTable = "default"

// rss is the receive hash of a device and what it is looked up in.
type rss struct {
	function uint8
	change   uint8 // of what is hashed, such as making it symmetric
	key      []byte
	table    []uint32
	rings    int
}

// readRSS asks for a device of the calling thread's namespace.
func readRSS(device string) (r rss, err error) {
	h := hashHeader{command: getHash}
	if err := hashIoctl(device, &h, nil, nil); err != nil {
		return r, err
	}
	if h.tableSize == 0 && h.keySize == 0 {
		return r, fmt.Errorf("its driver has none: %w", errors.ErrUnsupported)
	}
	r.table, r.key = make([]uint32, h.tableSize), make([]byte, h.keySize)
	h = hashHeader{command: getHash, tableSize: h.tableSize, keySize: h.keySize}
	if err := hashIoctl(device, &h, r.table, r.key); err != nil {
		return r, err
	}
	r.function, r.change, r.rings = h.function, h.change, receiveRings(device)
	return r, nil
}

// text is "change=0,hash=toeplitz,key=6d5a,table=0:1:2", without what a device
// does not have.
func (r rss) text() string {
	var items []string
	if r.change != 0 {
		items = append(items, fmt.Sprintf("change=%d", r.change))
	}
	for i, name := range hashFunctions {
		if r.function == 1<<i {
			items = append(items, "hash="+name)
		}
	}
	if len(r.key) > 0 {
		items = append(items, "key="+hex.EncodeToString(r.key))
	}
	if len(r.table) > 0 {
		items = append(items, "table="+tableText(r.table, r.rings))
	}
	return strings.Join(items, ",")
}

// tableText is the shortest list of rings that gives the table when it is
// repeated: "0:1:2".
func tableText(table []uint32, rings int) string {
	period := 1
	for ; period < len(table); period++ {
		if slices.Equal(table[period:], table[:len(table)-period]) {
			break
		}
	}
	start := make([]string, period)
	plain := true
	for i, ring := range table[:period] {
		start[i] = strconv.Itoa(int(ring))
		plain = plain && int(ring) == i
	}
	if plain && period == min(rings, len(table)) {
		return DefaultTable
	}
	return strings.Join(start, ":")
}

// parse changes what the text names.
func (r *rss) parse(text string) error {
	items, err := Fields(text)
	if err != nil {
		return err
	}
	r.change = 0
	for name, value := range items {
		switch name {
		case "change":
			n, bad := strconv.ParseUint(value, 10, 8)
			r.change, err = uint8(n), bad
		case "hash":
			i := slices.Index(hashFunctions, value)
			if i < 0 {
				return fmt.Errorf("%q is no hash function; those that are: %s", value, strings.Join(hashFunctions, ", "))
			}
			r.function = 1 << i
		case "key":
			var key []byte
			if key, err = hex.DecodeString(value); err == nil && len(key) != len(r.key) {
				err = fmt.Errorf("the key has %d bytes, and must have %d", len(key), len(r.key))
			}
			r.key = key
		case "table":
			r.table, err = parseTable(value, len(r.table), r.rings)
		default:
			err = fmt.Errorf("there is no %q", name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func parseTable(text string, size, rings int) ([]uint32, error) {
	table := make([]uint32, size)
	if text == DefaultTable {
		for i := range table {
			table[i] = uint32(i % max(rings, 1))
		}
		return table, nil
	}
	words := strings.Split(text, ":")
	for i := range table {
		n, err := strconv.ParseUint(words[i%len(words)], 10, 32)
		if err != nil || rings > 0 && int(n) >= rings {
			return nil, fmt.Errorf("%q is none of the %d rings", words[i%len(words)], rings)
		}
		table[i] = uint32(n)
	}
	return table, nil
}

// HashTable gives the text that a table will have which is asked for as text: what
// is repeated in it is said once. Error: it names a ring that there is not.
func HashTable(scope Scope, text string) (found string, err error) {
	err = onDevice(scope, func(device string) error {
		now, err := readRSS(device)
		if err != nil {
			return err
		}
		table, err := parseTable(text, len(now.table), now.rings)
		found = tableText(table, now.rings)
		return err
	})
	return found, err
}

// ReceiveRings is how many rings a device receives by; 0: it does not tell.
func ReceiveRings(scope Scope) (rings int) {
	_ = onDevice(scope, func(device string) error {
		rings = receiveRings(device)
		return nil
	})
	return rings
}

// rssBackend is the receive hash of devices: function, key and table.
func rssBackend() Backend {
	same := anySetting(func(asked, found Value) bool {
		a, err1 := Fields(asked.String())
		b, err2 := Fields(found.String())
		for name, value := range a {
			if b[name] != value {
				return false
			}
		}
		return err1 == nil && err2 == nil
	})
	return Backend{
		Name: "rss", Settle: 200 * time.Millisecond,
		Read: func(s Setting) (v Value, err error) {
			err = onDevice(s.Scope, func(device string) error {
				r, err := readRSS(device)
				v = Text(r.text())
				return err
			})
			return v, err
		},
		Write: func(s Setting, v Value) error {
			return onDevice(s.Scope, func(device string) error { return writeRSS(device, v.String()) })
		},
		Matches:     same,
		Equivalent:  same,
		SideEffects: otherDeviceSettings,
	}
}

// writeRSS sends what differs from now.
func writeRSS(device, text string) error {
	now, err := readRSS(device)
	if err != nil {
		return err
	}
	want := now
	if err := want.parse(text); err != nil {
		return err
	}
	h := hashHeader{command: setHash, tableSize: sameTable, change: want.change}
	var table []uint32
	var key []byte
	if !slices.Equal(want.table, now.table) {
		if tableText(want.table, now.rings) == DefaultTable {
			h.tableSize = 0
		} else {
			h.tableSize, table = uint32(len(want.table)), want.table
		}
	}
	if !slices.Equal(want.key, now.key) {
		h.keySize, key = uint32(len(want.key)), want.key
	}
	if want.function != now.function {
		h.function = want.function
	}
	if h.tableSize == sameTable && h.keySize == 0 && h.function == 0 && want.change == now.change {
		return nil
	}
	err = hashIoctl(device, &h, table, key)
	if errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("its driver does not take it: %w", err)
	}
	return err
}
