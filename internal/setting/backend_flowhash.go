package setting

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// flows are the kinds of packets that a device may hash by fields of their own,
// by the names that `ethtool -n` uses.
var flows = map[string]uint32{
	"tcp4": 0x01, "udp4": 0x02, "sctp4": 0x03, "ah4": 0x09, "esp4": 0x0a,
	"tcp6": 0x05, "udp6": 0x06, "sctp6": 0x07, "ah6": 0x0b, "esp6": 0x0c,
}

// hashLetters are the fields, by the letters that ethtool uses for them.
var hashLetters = []struct {
	bit    uint64
	letter string
}{
	{1 << 1, "m"},  // destination MAC address
	{1 << 2, "v"},  // VLAN
	{1 << 3, "t"},  // protocol
	{1 << 4, "s"},  // source address
	{1 << 5, "d"},  // destination address
	{1 << 6, "f"},  // source port
	{1 << 7, "n"},  // destination port
	{1 << 8, "e"},  // GTP's tunnel
	{1 << 31, "r"}, // discard
}

// NoHashFields is the text of an empty set: all packets of the kind go the same way.
const NoHashFields = "none"

func hashText(bits uint64) string {
	var text strings.Builder
	for _, l := range hashLetters {
		if bits&l.bit != 0 {
			text.WriteString(l.letter)
			bits &^= l.bit
		}
	}
	switch {
	case bits != 0: // newer than this program
		return fmt.Sprintf("%s+%#x", &text, bits)
	case text.Len() == 0:
		return NoHashFields
	}
	return text.String()
}

func hashBits(text string) (bits uint64, err error) {
	if text == NoHashFields {
		return 0, nil
	}
	letters, rest, more := strings.Cut(text, "+")
	if more {
		if _, err := fmt.Sscanf(rest, "%v", &bits); err != nil {
			return 0, fmt.Errorf("%q is no set of fields", text)
		}
	}
next:
	for _, r := range letters {
		for _, l := range hashLetters {
			if l.letter == string(r) {
				bits |= l.bit
				continue next
			}
		}
		return 0, fmt.Errorf("%q is no field; those that are: %s", r, hashText(1<<31|0x1fe))
	}
	return bits, nil
}

// flowHashBackend is the fields of packets that choose their receive queue. A key is
// a kind of packets: "udp4"; the value the letters of ethtool: "sdfn".
func flowHashBackend() Backend {
	same := anySetting(func(asked, found Value) bool {
		a, err1 := hashBits(asked.String())
		b, err2 := hashBits(found.String())
		return err1 == nil && err2 == nil && a == b
	})
	return Backend{
		Name: "flowhash",
		Read: func(s Setting) (v Value, err error) {
			flow, known := flows[s.Key]
			if !known {
				return v, fmt.Errorf("there is no kind of packets %q: %w", s.Key, os.ErrNotExist)
			}
			err = onDevice(s.Scope, func(device string) error {
				r := flowRequest{command: getHashFields, flow: flow}
				err := byIoctl(device, unsafe.Pointer(&r))
				if errors.Is(err, unix.EINVAL) { // how drivers say that they know no such packets
					return fmt.Errorf("its driver does not tell: %w", errors.ErrUnsupported)
				}
				v = Text(hashText(r.data))
				return err
			})
			return v, err
		},
		Write: func(s Setting, v Value) error {
			bits, err := hashBits(v.String())
			if err != nil {
				return err
			}
			return onDevice(s.Scope, func(device string) error {
				r := flowRequest{command: setHashFields, flow: flows[s.Key], data: bits}
				return byIoctl(device, unsafe.Pointer(&r))
			})
		},
		Matches:    same,
		Equivalent: same,
	}
}
