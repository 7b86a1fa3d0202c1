package knob

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/verr"
)

// DeviceScope gives the scope of the target's device.
func DeviceScope(t Target) (setting.Scope, error) {
	if t.Device == "" {
		return setting.Scope{}, verr.New(verr.Usage, "cannot tell which device is meant", "none is named", "name it with --dev")
	}
	if scope, err := setting.NetnsScope(t.Netns); err != nil {
		return scope, BadNetns(t, err)
	}
	return setting.DeviceScope(t.Netns, t.Device)
}

// Queue is what one queue of a device has in one of its files.
type Queue struct {
	Name    string // "rx-0"
	Setting setting.Setting
	Value   string // without white space around it
}

// ReadQueues reads a file of each queue of a device: "queues/rx-*/rps_cpus". What
// cannot be read of them is left out. Error: a [verr.Error] where there is none.
func ReadQueues(m Machine, t Target, pattern string) ([]Queue, error) {
	scope, err := DeviceScope(t)
	if err != nil {
		return nil, err
	}
	keys, err := setting.DeviceFiles(scope, pattern)
	if err != nil {
		return nil, err
	}
	var queues []Queue
	for _, key := range keys {
		s := setting.Setting{Backend: "net", Scope: scope, Key: key}
		v, err := m.Settings.Read(s)
		if errors.Is(err, os.ErrNotExist) {
			continue // a device of one queue has the file, and does not let it be read
		}
		if err != nil {
			return nil, err
		}
		queues = append(queues, Queue{filepath.Base(filepath.Dir(key)), s, strings.TrimSpace(v.String())})
	}
	if len(queues) == 0 {
		return nil, verr.New(verr.Missing, "cannot read "+filepath.Base(pattern)+" of "+t.Device, "the device has no queues that have it", "it takes a device with more than one queue, or a kernel with this feature; for a veth pair, make it with numrxqueues and numtxqueues")
	}
	return queues, nil
}

// ReadMasks reads a file of each queue that holds a mask, as lists.
func ReadMasks(m Machine, t Target, pattern string) ([]Queue, error) {
	queues, err := ReadQueues(m, t, pattern)
	for i := range queues {
		if err == nil {
			queues[i].Value, err = ParseMask(queues[i].Value)
		}
	}
	return queues, err
}

// FormatLists writes lists of queues as one value: "0-1", or where they are not
// all the same "rx-0=0 rx-1=1".
func FormatLists(queues []Queue) string {
	var parts []string
	for _, q := range queues {
		parts = append(parts, q.Name+"="+OffFor(q.Value, "none"))
	}
	if !slices.ContainsFunc(queues, func(q Queue) bool { return q.Value != queues[0].Value }) {
		return OffFor(queues[0].Value, "none")
	}
	return strings.Join(parts, " ")
}

// OffFor calls a value off.
func OffFor(value, what string) string {
	if value == what {
		return Off
	}
	return value
}

// ParseLists reads what FormatLists writes: a list for each queue that is to change.
// What a single list means for all of them, spread says.
func ParseLists(value string, queues []Queue, spread func(list string) ([]string, error)) (map[string]string, error) {
	lists := map[string]string{}
	if !strings.Contains(value, "=") {
		all, err := spread(strings.TrimSpace(value))
		for i, list := range all {
			lists[queues[i].Name] = list
		}
		return lists, err
	}
	for _, part := range strings.Fields(value) {
		name, list, _ := strings.Cut(part, "=")
		if !slices.ContainsFunc(queues, func(q Queue) bool { return q.Name == name }) {
			return nil, fmt.Errorf("there is no queue %s", name)
		}
		lists[name] = list
	}
	return lists, nil
}

// CheckCores refuses lists with a core that is none of some, and says of it what that means.
// Without any, they are not known.
func CheckCores(lists map[string]string, cores []int, why string) error {
	for _, list := range lists {
		if list == Off || len(cores) == 0 {
			continue
		}
		numbers, err := host.ParseNumbers(list)
		if err != nil {
			return err
		}
		others := slices.DeleteFunc(numbers, func(core int) bool { return slices.Contains(cores, core) })
		if len(others) > 0 {
			return fmt.Errorf("core %s %s", host.FormatNumbers(others), why)
		}
	}
	return nil
}

// MaskWrites gives the writes of lists to queues. Most is how many bits there
// are, 0 if that is not known.
func MaskWrites(queues []Queue, lists map[string]string, most int) ([]setting.Write, error) {
	var writes []setting.Write
	for _, q := range queues {
		list, named := lists[q.Name]
		if !named {
			continue
		}
		if list == Off {
			list = "none"
		}
		mask, err := FormatMask(list)
		if err != nil {
			return nil, err
		}
		numbers, err := host.ParseNumbers(list)
		if err != nil {
			return nil, err
		}
		if n := len(numbers); n > 0 && most > 0 && numbers[n-1] >= most {
			return nil, fmt.Errorf("there is no %d: the last one is %d", numbers[n-1], most-1)
		}
		writes = append(writes, setting.Write{Setting: q.Setting, Value: setting.Text(mask)})
	}
	return writes, nil
}
