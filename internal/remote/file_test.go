package remote

import (
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/verr"
)

func TestReadMachines(t *testing.T) {
	file := filepath.Join(t.TempDir(), "machines.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`machines:
  - name: b
    ssh: root@h1
    address: 10.0.0.1
    cores: [3, 2]
  - name: a
    ssh: ssh://deploy@h2:2222
    device: eth1
    sudo: false
`)
	got, err := ReadMachines(file)
	want := []Machine{
		{Name: "b", User: "root", Host: "h1", Addr: netip.MustParseAddr("10.0.0.1"), Cores: []int{3, 2}},
		{Name: "a", User: "deploy", Host: "h2", Port: 2222, Device: "eth1", NoSudo: true},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v, %v", got, err)
	}
	for text, why := range map[string]string{
		"":                                "empty",
		"machines: []":                    "no machines",
		"machines: 3":                     "line 1: cannot unmarshal",
		"machines:\n- name: a\n  host: x": "line 3: field host not found",
		"machines:\n- name: a\n":          "line 2: machine a has no ssh",
		"machines:\n- name: A\n  ssh: h":  "line 2: the name",
		"machines:\n- {name: a, ssh: h}\n- {name: a, ssh: h}": "line 3: the name a is given twice",
		"machines:\n- name: a\n  ssh: root:x@h":               "line 3: it holds a password",
		"machines:\n- name: a\n  ssh: http://h":               "line 3: its scheme",
		"machines:\n- name: a\n  ssh: h?addr=1":               "line 3: the address and the device",
		"machines:\n- name: a\n  ssh: h\n  address: fe80::1":  "line 4: address is",
		"machines:\n- name: a\n  ssh: h\n  cores: [-1]":       "line 4: core -1",
		"machines:\n- name: a\n  ssh: h\n  cores: two":        "line 4: cannot unmarshal",
		"machines:\n- name: a\n  ssh: [\n":                    "line ",
	} {
		write(text)
		_, err := ReadMachines(file)
		if err == nil || !strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), file) || verr.Code(err) != verr.Usage {
			t.Errorf("%q: %v, want %q and the file", text, err, why)
		}
		if err != nil && strings.Contains(err.Error(), "remote.") {
			t.Errorf("%q: %v speaks of Go", text, err)
		}
	}
	if _, err := ReadMachines(filepath.Join(t.TempDir(), "none")); err == nil || verr.Code(err) != verr.Usage {
		t.Errorf("no file: %v", err)
	}
}
