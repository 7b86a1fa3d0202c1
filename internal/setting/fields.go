package setting

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mdlayher/netlink"
)

// fields is a kind of values of a device that the kernel takes together in one
// message: its rings, its channels. The text of one is "rx=256,tx=512".
type fields struct {
	backendName string
	get, set    uint8 // the messages
	list        []field
	rounds      func(name string, asked, found int) bool // whether a driver may make found of asked in a field; nil: none does
	chosenBy    map[string]string                        // flags with which a driver chooses a field itself, and may reset it when they change
	disturbs    bool                                     // drivers make the device anew for it
	queues      bool                                     // what single queues were told to wait is lost by it
	lag         time.Duration                            // how long what was written may take to show
	settle      time.Duration                            // see [Backend.Settle]
}

// field is one of them.
type field struct {
	name    string
	attr    uint16
	kind    kind
	maxAttr uint16 // the attribute that tells its maximum; 0: none does
}

// kind is how a field is written.
type kind int

const (
	number kind = iota // 32 bits
	flag               // 8 bits: off, on
	choice             // 8 bits: 0 is the driver's choice, then off, on
)

var kinds = map[kind][]string{flag: {"off", "on"}, choice: {"auto", "off", "on"}}

// Fields reads the text of rings, channels, coalescing and pause: "rx=256,tx=512".
// What is named twice, or has no value, is an error.
func Fields(text string) (map[string]string, error) {
	values := map[string]string{}
	for item := range strings.SplitSeq(text, ",") {
		name, value, found := strings.Cut(strings.TrimSpace(item), "=")
		if _, twice := values[name]; twice || !found || name == "" || value == "" {
			return nil, fmt.Errorf("want NAME=VALUE, and each name once, not %q", item)
		}
		values[name] = value
	}
	return values, nil
}

// read gives the fields that a device has, and the maxima of those that tell one.
func (f fields) read(scope Scope) (now, most map[string]int, err error) {
	now, most = map[string]int{}, map[string]int{}
	err = withEthtool(scope, func(e *ethConn) error { return f.readBy(e, now, most) })
	if err == nil && len(now) == 0 {
		err = fmt.Errorf("its driver has none: %w", errors.ErrUnsupported)
	}
	return now, most, err
}

func (f fields) readBy(e *ethConn, now, most map[string]int) error {
	return e.get(f.get, func(d *netlink.AttributeDecoder) error {
		for _, field := range f.list {
			switch {
			case d.Type() == field.attr && field.kind == number:
				now[field.name] = int(d.Uint32())
			case d.Type() == field.attr:
				now[field.name] = int(d.Uint8())
			case field.maxAttr != 0 && d.Type() == field.maxAttr:
				most[field.name] = int(d.Uint32())
			}
		}
		return nil
	})
}

// text writes fields in the order of the list.
func (f fields) text(values map[string]int) string {
	var items []string
	for _, field := range f.list {
		if n, there := values[field.name]; there {
			items = append(items, field.name+"="+field.kind.text(n))
		}
	}
	return strings.Join(items, ",")
}

func (k kind) text(n int) string {
	if words := kinds[k]; n < len(words) {
		return words[n]
	}
	return strconv.Itoa(n)
}

func (k kind) parse(text string) (int, error) {
	if i := slices.Index(kinds[k], text); i >= 0 {
		return i, nil
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || k != number {
		return 0, fmt.Errorf("%q is not what it can be", text)
	}
	return int(n), nil
}

func (f fields) parse(text string) (map[string]int, error) {
	words, err := Fields(text)
	if err != nil {
		return nil, err
	}
	values := map[string]int{}
	for name, word := range words {
		i := slices.IndexFunc(f.list, func(field field) bool { return field.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no %q, only %s", name, f.names())
		}
		if values[name], err = f.list[i].kind.parse(word); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return values, nil
}

func (f fields) names() string {
	names := make([]string, len(f.list))
	for i, field := range f.list {
		names[i] = field.name
	}
	return strings.Join(names, ", ")
}

// write sends what differs from now: drivers refuse a message that names what
// they cannot set, even if it asks for what is there.
func (f fields) write(s Setting, v Value) error {
	want, err := f.parse(v.String())
	if err != nil {
		return err
	}
	return withEthtool(s.Scope, func(e *ethConn) error {
		missing, err := f.pending(e, want)
		if err != nil || len(missing) == 0 {
			return err
		}
		if f.queues {
			if err := checkQueuesUniform(e.device); err != nil {
				return err
			}
		}
		err = f.send(e, missing)
		if err == nil && len(f.chosenBy) > 0 {
			if missing, err = f.pending(e, want); err == nil && len(missing) > 0 {
				// A driver that has changed who chooses takes the rest now, or leaves it out: what is
				// read back tells.
				_ = f.send(e, missing)
			}
		}
		for end := time.Now().Add(f.lag); err == nil && len(missing) > 0 && time.Now().Before(end); {
			time.Sleep(lagPoll)
			missing, err = f.pending(e, want)
		}
		return err
	})
}

// send tells a device some values in one message.
func (f fields) send(e *ethConn, values map[string]int) error {
	return e.set(f.set, func(a *netlink.AttributeEncoder) error {
		for _, field := range f.list {
			n, asked := values[field.name]
			switch {
			case !asked:
			case field.kind == number:
				a.Uint32(field.attr, uint32(n))
			default:
				a.Uint8(field.attr, uint8(n))
			}
		}
		return nil
	})
}

// lagPoll is how often a device is asked whether it shows what was written.
const lagPoll = 50 * time.Millisecond

// pending are the values that a device does not have yet.
func (f fields) pending(e *ethConn, want map[string]int) (map[string]int, error) {
	now, missing := map[string]int{}, map[string]int{}
	err := f.readBy(e, now, map[string]int{})
	for name, n := range want {
		if now[name] != n {
			missing[name] = n
		}
	}
	return missing, err
}

func (f fields) backend() Backend {
	b := Backend{
		Name: f.backendName, Settle: f.settle,
		Read: func(s Setting) (Value, error) {
			now, _, err := f.read(s.Scope)
			if err != nil {
				return Value{}, err
			}
			return Text(f.text(now)), nil
		},
		Write:      f.write,
		Matches:    func(_ Setting, asked, found Value) bool { return f.compare(asked, found, true) },
		Equivalent: func(_ Setting, asked, found Value) bool { return f.compare(asked, found, false) },
	}
	if f.disturbs {
		b.SideEffects = otherDeviceSettings
	}
	return b
}

// compare tells whether each field that was asked for is there, or what a driver may make
// of it.
func (f fields) compare(asked, found Value, made bool) bool {
	a, err1 := f.parse(asked.String())
	b, err2 := f.parse(found.String())
	if err1 != nil || err2 != nil {
		return false
	}
	for name, n := range a {
		rounded := f.rounds != nil && f.rounds(name, n, b[name])
		chosen := a[f.chosenBy[name]] == 1 && b[f.chosenBy[name]] == 1
		if b[name] != n && (!made || !rounded && !chosen) {
			return false
		}
	}
	return true
}

// Maxima gives the largest values that a device tells of the fields of a setting
// of the backends "ring" and "channel".
// Error: errors.ErrUnsupported, where it has none.
func Maxima(s Setting) (map[string]int, error) {
	for _, f := range []fields{rings, channels} {
		if f.backendName == s.Backend {
			_, most, err := f.read(s.Scope)
			return most, err
		}
	}
	return nil, fmt.Errorf("backend %q knows no maxima", s.Backend)
}
