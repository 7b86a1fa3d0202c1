package knob

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/verr"
)

// onDevice gives the place of the target's device.
func onDevice(t Target) (setting.Scope, error) {
	if t.Device == "" {
		return setting.Scope{}, verr.New(verr.Usage, "cannot tell which device is meant", "none is named", "name it with --dev")
	}
	if p, err := setting.NetnsScope(t.Netns); err != nil {
		return p, noNetns(t, err)
	}
	return setting.DeviceScope(t.Netns, t.Device)
}

// queue is what one queue of a device has in one of its files.
type queue struct {
	name string // "rx-0"
	cell setting.Setting
	now  string // without white space around it
}

// queuesOf reads a file of each queue of a device: "queues/rx-*/rps_cpus". What
// cannot be read of them is left out. Error: a [verr.Error] where there is none.
func queuesOf(m Machine, t Target, pattern string) ([]queue, error) {
	place, err := onDevice(t)
	if err != nil {
		return nil, err
	}
	keys, err := setting.DeviceFiles(place, pattern)
	if err != nil {
		return nil, err
	}
	var queues []queue
	for _, key := range keys {
		cell := setting.Setting{Backend: "net", Scope: place, Key: key}
		v, err := m.Settings.Read(cell)
		if errors.Is(err, os.ErrNotExist) {
			continue // a device of one queue has the file, and does not let it be read
		}
		if err != nil {
			return nil, err
		}
		queues = append(queues, queue{filepath.Base(filepath.Dir(key)), cell, strings.TrimSpace(v.String())})
	}
	if len(queues) == 0 {
		return nil, verr.New(verr.Missing, "cannot read "+filepath.Base(pattern)+" of "+t.Device, "the device has no queues that have it", "it takes a device with more than one queue, or a kernel with this feature; for a veth pair, make it with numrxqueues and numtxqueues")
	}
	return queues, nil
}

// masksOf reads a file of each queue that holds a mask, as lists.
func masksOf(m Machine, t Target, pattern string) ([]queue, error) {
	queues, err := queuesOf(m, t, pattern)
	for i := range queues {
		if err == nil {
			queues[i].now, err = coresOfMask(queues[i].now)
		}
	}
	return queues, err
}

// eachQueue writes lists of queues as one value: "0-1", or where they are not
// all the same "rx-0=0 rx-1=1".
func eachQueue(queues []queue) string {
	var parts []string
	for _, q := range queues {
		parts = append(parts, q.name+"="+offFor(q.now, "none"))
	}
	if !slices.ContainsFunc(queues, func(q queue) bool { return q.now != queues[0].now }) {
		return offFor(queues[0].now, "none")
	}
	return strings.Join(parts, " ")
}

// offFor calls a value off.
func offFor(value, what string) string {
	if value == what {
		return "off"
	}
	return value
}

// listsFor reads what eachQueue writes: a list for each queue that is to change.
// What a single list means for all of them, spread says.
func listsFor(value string, queues []queue, spread func(list string) ([]string, error)) (map[string]string, error) {
	lists := map[string]string{}
	if !strings.Contains(value, "=") {
		all, err := spread(strings.TrimSpace(value))
		for i, list := range all {
			lists[queues[i].name] = list
		}
		return lists, err
	}
	for _, part := range strings.Fields(value) {
		name, list, _ := strings.Cut(part, "=")
		if !slices.ContainsFunc(queues, func(q queue) bool { return q.name == name }) {
			return nil, fmt.Errorf("there is no queue %s", name)
		}
		lists[name] = list
	}
	return lists, nil
}

// maskWrites gives the writes of lists to queues. Most is how many bits there
// are, 0 if that is not known.
func maskWrites(queues []queue, lists map[string]string, most int) ([]setting.Write, error) {
	var writes []setting.Write
	for _, q := range queues {
		list, named := lists[q.name]
		if !named {
			continue
		}
		if list == "off" {
			list = "none"
		}
		mask, err := maskOfCores(list)
		if err != nil {
			return nil, err
		}
		numbers, err := numbersIn(list)
		if err != nil {
			return nil, err
		}
		if n := len(numbers); n > 0 && most > 0 && numbers[n-1] >= most {
			return nil, fmt.Errorf("there is no %d: the last one is %d", numbers[n-1], most-1)
		}
		writes = append(writes, setting.Write{Setting: q.cell, Value: setting.Text(mask)})
	}
	return writes, nil
}

// numbersIn reads a list of numbers and spans, in ascending order.
func numbersIn(list string) ([]int, error) {
	if list == "none" {
		return nil, nil
	}
	var numbers []int
	for span := range strings.SplitSeq(list, ",") {
		from, to, ranged := strings.Cut(strings.TrimSpace(span), "-")
		if !ranged {
			to = from
		}
		first, err1 := strconv.Atoi(from)
		last, err2 := strconv.Atoi(to)
		if err1 != nil || err2 != nil || first < 0 || last < first || last >= mostCores {
			return nil, fmt.Errorf("%q is no number and no span of numbers", span)
		}
		for n := first; n <= last; n++ {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return slices.Compact(numbers), nil
}

// coresOn lists the cores that are on; none if that cannot be read.
func coresOn(m Machine) []int {
	v, err := m.Settings.Read(setting.Setting{Backend: "kernel", Key: "/sys/devices/system/cpu/online"})
	if err != nil {
		return nil
	}
	on, err := numbersIn(strings.TrimSpace(v.String()))
	if err != nil {
		return nil
	}
	return on
}

// coresThere is how many cores the machine can have, by their highest number; 0
// if that cannot be read.
func coresThere(m Machine) int {
	on := coresOn(m)
	if len(on) == 0 {
		return 0
	}
	return on[len(on)-1] + 1
}

// noSense is the error of a value that makes none.
func noSense(knob, value string, err error) error {
	return verr.Wrap(verr.Usage, fmt.Sprintf("cannot set %s to %q", knob, value), err, SeeValues)
}
