package setting

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/venturi-net/venturi/internal/host"
)

// Qdisc is the queueing discipline of a device, or that of one of its queues.
type Qdisc struct {
	// Handle is "0:" for one that the kernel put there by itself. It is no sign
	// of its kind: an administrator's noqueue has a handle like any other.
	Handle string `json:"handle"`
	Kind   string `json:"kind"`

	// Leaves are those of the queues below mq.
	Leaves []Qdisc `json:"leaves,omitempty"`

	// Options are its parameters as the kernel gives and takes them, in hex. Empty
	// in a value to be written: what the kernel chooses. Those of a kind that cannot
	// be made again are left out: some change with each packet, and a value must be
	// the same as long as nobody has set another one.
	Options string `json:"options,omitempty"`
	Queue   int    `json:"queue,omitempty"` // of a leaf, from 1

	// Attached is what hangs on it and could not be brought back, such as "filters".
	Attached []string `json:"with,omitempty"`
}

// kernelHandle is the handle of what the kernel put there by itself.
const kernelHandle = "0:"

// rebuildable are the kinds that can be made again exactly from what the kernel
// tells of them. The others have classes, filters, or options that it takes in
// other words than it gives them.
var rebuildable = []string{"noqueue", "pfifo", "bfifo", "pfifo_fast", "fq", "fq_codel", "codel"}

// QdiscKinds lists the kinds that can be set.
func QdiscKinds() []string { return slices.Clone(rebuildable) }

// QdiscSetting gives the setting of the queueing discipline of a device.
func QdiscSetting(of Scope) Setting { return Setting{Backend: "qdisc", Scope: of, Key: "root"} }

// ReadQdisc makes a Qdisc of what its setting holds.
func ReadQdisc(v Value) (q Qdisc, err error) {
	if err := json.Unmarshal(v.Data, &q); err != nil {
		return q, fmt.Errorf("read qdisc: %w", err)
	}
	return q, nil
}

func (q Qdisc) value() (Value, error) {
	text, err := json.Marshal(q)
	return Value{Data: text, Present: true}, err
}

// Exact tells whether the kernel can be made to hold this again, just as it is.
// Error: why not.
func (q Qdisc) Exact() error {
	if len(q.Attached) > 0 {
		return fmt.Errorf("%s %s has %s, which could not be brought back", q.Kind, q.Handle, strings.Join(q.Attached, " and "))
	}
	if q.Kind != "mq" && !slices.Contains(rebuildable, q.Kind) {
		return fmt.Errorf("%s %s could not be brought back with all that is in it", q.Kind, q.Handle)
	}
	for _, leaf := range q.Leaves {
		if leaf.Kind == "mq" {
			return errors.New("there is a mq below another one")
		}
		if err := leaf.Exact(); err != nil {
			return err
		}
	}
	return nil
}

// Replacement gives what to write so that all queues of a device that has q have a
// kind. It has handles that q does not have.
func (q Qdisc) Replacement(kind string) (Value, error) {
	const span = 0x800 // more queues than any device has
	base := uint32(0x7000)
	for slices.ContainsFunc(append(q.Leaves, q), func(l Qdisc) bool { return parseHandle(l.Handle)/span == base/span }) {
		base -= span
	}
	handle := func(n int) string { return fmt.Sprintf("%x:", base+uint32(n)) }
	if q.Kind != "mq" {
		return Qdisc{Handle: handle(0), Kind: kind}.value()
	}
	mq := Qdisc{Handle: handle(0), Kind: "mq"}
	for i, leaf := range q.Leaves {
		mq.Leaves = append(mq.Leaves, Qdisc{Handle: handle(i + 1), Kind: kind, Queue: leaf.Queue})
	}
	return mq.value()
}

// parseHandle gives the number before the colon of a handle; 0 for what is none.
func parseHandle(handle string) uint32 {
	n, _ := strconv.ParseUint(strings.TrimSuffix(handle, ":"), 16, 16)
	return uint32(n)
}

// qdiscBackend is the queueing disciplines of devices, each with what is below
// its queues: the kernel makes the leaves of mq by itself, and takes back none
// that somebody made, so that they are one value with the root. Its only key is
// "root".
func qdiscBackend() Backend {
	same := anySetting(func(asked, found Value) bool {
		a, err1 := ReadQdisc(asked)
		f, err2 := ReadQdisc(found)
		return err1 == nil && err2 == nil && a.matches(f)
	})
	return Backend{
		Name: "qdisc", Settle: 50 * time.Millisecond,
		Read: func(s Setting) (v Value, err error) {
			err = withQdisc(s, func(index int) error {
				q, err := readQdiscs(index)
				if err != nil {
					return err
				}
				v, err = q.value()
				return err
			})
			return v, err
		},
		Write: func(s Setting, v Value) error {
			q, err := ReadQdisc(v)
			if err != nil {
				return err
			}
			chosen, err := readDefaultQdisc()
			if err != nil {
				return err
			}
			return withQdisc(s, func(index int) error { return writeQdiscs(index, q, chosen) })
		},
		Matches:    same,
		Equivalent: same,
		PartialWrite: func(asked, found Value) bool {
			a, err1 := ReadQdisc(asked)
			f, err2 := ReadQdisc(found)
			return err1 == nil && err2 == nil && a.partial(f)
		},
	}
}

func withQdisc(s Setting, fn func(index int) error) error {
	if s.Scope.Device == nil || s.Key != "root" {
		return errors.New("no such qdisc of a device")
	}
	return s.Scope.enterDevice(func(_ string, index int) error { return fn(index) })
}

// matches tells whether found is what the kernel makes of q.
func (q Qdisc) matches(found Qdisc) bool {
	same := q.Handle == found.Handle && q.Kind == found.Kind && q.Queue == found.Queue && len(found.Attached) == 0
	// Earlier versions recorded options of kinds that cannot be made again.
	options := q.Options == "" || q.Options == found.Options || !slices.Contains(rebuildable, q.Kind)
	return same && options && len(q.Leaves) == len(found.Leaves) &&
		!slices.ContainsFunc(q.Leaves, func(leaf Qdisc) bool { return !slices.ContainsFunc(found.Leaves, leaf.matches) })
}

// partial tells whether found is what a write of q leaves that was killed: mq has
// its handle already, and some of its leaves are still the kernel's own.
func (q Qdisc) partial(found Qdisc) bool {
	if q.Kind != "mq" || q.Handle == kernelHandle || found.Kind != "mq" || q.Handle != found.Handle {
		return false
	}
	return !slices.ContainsFunc(found.Leaves, func(leaf Qdisc) bool {
		return leaf.Handle != kernelHandle && !slices.ContainsFunc(q.Leaves, func(asked Qdisc) bool { return asked.matches(leaf) })
	})
}

// readDefaultQdisc is the kind that the kernel gives to a device by itself; empty
// where that cannot be known.
func readDefaultQdisc() (kind string, err error) {
	err = host.Do(HomeNetns, func() error {
		kind, err = host.Reader{}.Sysctl("net.core.default_qdisc")
		return err
	})
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
		return "", nil
	}
	return kind, err
}
