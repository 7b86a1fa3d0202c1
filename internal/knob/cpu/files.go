package cpu

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/venturi-net/venturi/internal/knob"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/verr"
)

// cpuFolder is where the kernel shows the machine's cores.
const cpuFolder = "/sys/devices/system/cpu/"

// cpuFiles is a knob that is a file of each core, or of each group of cores that
// have one clock. One value is for all of them, or each is named:
// "policy0=performance policy4=powersave".
type cpuFiles struct {
	name    string                                                // of the knob
	pattern string                                                // of the files, below cpuFolder if it does not begin with a slash
	check   func(value string) error                              // nil: the file of choices says what there is
	choices string                                                // a file beside each, with what it takes
	refuse  func(m knob.Machine, q knob.Queue, text string) error // why a text cannot be written to one now; nil: it always can
	trials  []string                                              // values worth a trial
	needs   string                                                // what gives a machine these files
	note    func(m knob.Machine, q knob.Queue) string             // what else to know; nil: nothing
}

// coreFiles reads files that match a pattern, in the order of their numbers. What a driver does not let be read is left out.
func coreFiles(m knob.Machine, pattern string) ([]knob.Queue, error) {
	if !strings.HasPrefix(pattern, "/") {
		pattern = cpuFolder + pattern
	}
	root := filepath.Join("/", m.Root)
	files, err := sanitize.Files(root, strings.TrimPrefix(pattern, "/"))
	if err != nil {
		return nil, err
	}
	slices.SortFunc(files, func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
	var found []knob.Queue
	for _, file := range files {
		key := "/" + strings.TrimPrefix(strings.TrimPrefix(file, root), "/")
		s := setting.Setting{Backend: "kernel", Key: key}
		v, err := m.Settings.Read(s)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		found = append(found, knob.Queue{Name: ownerOf(key), Setting: s, Value: strings.TrimSpace(v.String())})
	}
	return found, nil
}

// ownerOf is the first folder of a file's name that has a number: "policy0".
func ownerOf(key string) string {
	for _, part := range strings.Split(strings.TrimPrefix(key, cpuFolder), "/") {
		if strings.ContainsAny(part, "0123456789") {
			return part
		}
	}
	return filepath.Base(key)
}

// noFiles is the error of a machine that has no files of a kind.
func noFiles(m knob.Machine, name, needs string) error {
	if h := m.Hypervisor(); h != "" {
		return verr.New(verr.Missing, "cannot read "+name, "this is a virtual machine ("+h+"), and its host has it in hand", "turn it on the host")
	}
	return verr.New(verr.Missing, "cannot read "+name, "this machine does not show it", needs)
}

func (k cpuFiles) read(m knob.Machine) ([]knob.Queue, error) {
	files, err := coreFiles(m, k.pattern)
	if err == nil && len(files) == 0 {
		err = noFiles(m, k.name, k.needs)
	}
	return files, err
}

// Get is of [knob.Knob].
func (k cpuFiles) Get(m knob.Machine, _ knob.Target) (knob.Reading, error) {
	files, err := k.read(m)
	if err != nil {
		return knob.Reading{}, err
	}
	r := knob.Reading{Value: knob.FormatLists(files)}
	if k.note != nil {
		r.Note = k.note(m, files[0])
	}
	return r, nil
}

// Plan is of [knob.Knob]: one after the other.
func (k cpuFiles) Plan(m knob.Machine, _ knob.Target, value string) ([]setting.Write, error) {
	files, err := k.read(m)
	if err != nil {
		return nil, err
	}
	wanted, err := knob.ParseLists(value, files, func(one string) ([]string, error) {
		return slices.Repeat([]string{one}, len(files)), nil
	})
	if err != nil {
		return nil, knob.BadValue(k.name, value, err)
	}
	var writes []setting.Write
	for _, f := range files {
		text, named := wanted[f.Name]
		if !named {
			continue
		}
		if err := k.takes(m, f, text); err != nil {
			return nil, knob.BadValue(k.name, value, err)
		}
		if text == f.Value {
			continue
		}
		if k.refuse != nil {
			if err := k.refuse(m, f, text); err != nil {
				return nil, err
			}
		}
		writes = append(writes, setting.Write{Setting: f.Setting, Value: setting.Text(text)})
	}
	return writes, nil
}

// takes tells whether a file takes a value.
func (k cpuFiles) takes(m knob.Machine, f knob.Queue, text string) error {
	if k.check != nil {
		return k.check(text)
	}
	v, err := m.Settings.Read(setting.Setting{Backend: "kernel", Key: filepath.Join(filepath.Dir(f.Setting.Key), k.choices)})
	if errors.Is(err, os.ErrNotExist) && text != "" {
		return nil // the kernel will say so if it does not
	}
	if err != nil {
		return err
	}
	if there := strings.Fields(v.String()); !slices.Contains(there, text) {
		return fmt.Errorf("%s takes one of %s", f.Name, strings.Join(there, ", "))
	}
	return nil
}

// Range is of [knob.Ranger]: those of the trials that all take.
func (k cpuFiles) Range(m knob.Machine, t knob.Target) ([]string, error) {
	now, err := k.Get(m, t)
	if err != nil {
		return nil, err
	}
	possible := slices.DeleteFunc(slices.Clone(k.trials), func(v string) bool {
		_, err := k.Plan(m, t, v)
		return err != nil
	})
	return knob.OtherThan(possible...)(now.Value), nil
}
