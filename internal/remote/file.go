package remote

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/venturi-net/venturi/internal/verr"
)

// fileForm is what a file of machines holds.
type fileForm struct {
	Machines []fileMachine `yaml:"machines"`
}

// fileMachine is a machine in such a file.
type fileMachine struct {
	Name    string `yaml:"name"`
	SSH     string `yaml:"ssh"`
	Address string `yaml:"address"`
	Device  string `yaml:"device"`
	Cores   []int  `yaml:"cores"`
	Sudo    *bool  `yaml:"sudo"`
}

// fileExample is what an error offers.
const fileExample = "write it as docs/machines.md shows: machines, a list of name, ssh, and if wanted address, device, cores, sudo"

// ReadMachines reads the machines that a file describes, in its order. Errors are for people,
// and name the file and the line.
func ReadMachines(file string) ([]Machine, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, verr.Wrap(verr.Usage, "cannot read the machines", err,
			"name a file, or write NAME=ssh://[USER@]HOST, such as a=ssh://root@192.0.2.1")
	}
	machines, err := parseFile(text)
	if err != nil {
		return nil, verr.Wrap(verr.Usage, "cannot use the machines of "+file, err, fileExample)
	}
	return machines, nil
}

func parseFile(text []byte) (machines []Machine, err error) {
	var form fileForm
	var doc yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	switch err := d.Decode(&form); {
	case errors.Is(err, io.EOF):
		return nil, errors.New("it is empty")
	case err != nil:
		return nil, plainYAML(err)
	}
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, plainYAML(err)
	}
	if len(form.Machines) == 0 {
		return nil, errors.New("it has no machines")
	}
	seen := map[string]bool{}
	for i, f := range form.Machines {
		m, key, err := f.machine()
		if err == nil && seen[m.Name] {
			key, err = "name", fmt.Errorf("the name %s is given twice", m.Name)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", lineOf(&doc, i, key), err)
		}
		seen[m.Name] = true
		machines = append(machines, m)
	}
	return machines, nil
}

// typeName is how the library speaks of our types.
var typeName = regexp.MustCompile(` (in type|into) \S*remote\.\w+`)

// plainYAML puts the library's errors into one line, without the names of our types.
func plainYAML(err error) error {
	var mismatch *yaml.TypeError
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if errors.As(err, &mismatch) {
		text = strings.Join(mismatch.Errors, "; ")
	}
	return errors.New(typeName.ReplaceAllString(text, ""))
}

// lineOf is where a key of the nth machine is, or the machine.
func lineOf(doc *yaml.Node, nth int, key string) int {
	list := valueOf(doc.Content[0], "machines")
	if list == nil || nth >= len(list.Content) {
		return doc.Line
	}
	if value := valueOf(list.Content[nth], key); value != nil {
		return value.Line
	}
	return list.Content[nth].Line
}

func valueOf(mapping *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}

// machine checks what the file says of one; key names what is wrong.
func (f fileMachine) machine() (m Machine, key string, err error) {
	address := f.SSH
	if !strings.Contains(address, "://") {
		address = "ssh://" + address
	}
	switch {
	case !machineName.MatchString(f.Name):
		return m, "name", fmt.Errorf("the name %q is not a letter with up to 14 lower-case letters, digits and hyphens", f.Name)
	case f.SSH == "":
		return m, "ssh", fmt.Errorf("machine %s has no ssh: where it is reached, such as root@192.0.2.1", f.Name)
	case strings.Contains(f.SSH, "?"):
		return m, "ssh", errors.New("the address and the device of traffic are given by address and device, not behind a question mark")
	}
	if m, err = parseMachine(f.Name + "=" + address); err != nil {
		return m, "ssh", err
	}
	if f.Address != "" {
		if m.Addr, err = parseTrafficAddr(f.Address); err != nil {
			return m, "address", fmt.Errorf("address is %w", err)
		}
	}
	m.Device, m.Cores, m.NoSudo = f.Device, f.Cores, f.Sudo != nil && !*f.Sudo
	if i := slices.IndexFunc(m.Cores, func(core int) bool { return core < 0 }); i >= 0 {
		return m, "cores", fmt.Errorf("core %d is below zero", m.Cores[i])
	}
	return m, "", nil
}
