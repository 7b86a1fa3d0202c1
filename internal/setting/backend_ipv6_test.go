package setting_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/testenv"
)

// TestIPv6Renamed: a device's setting is found by its name of today, and that of
// the device which has its old name by now stays.
func TestIPv6Renamed(t *testing.T) {
	_, n := testenv.Namespace(t)
	ip := func(args ...string) {
		t.Helper()
		args = append([]string{"-n", filepath.Base(n.Path())}, args...)
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %v: %v: %s", args, err, out)
		}
	}
	ipv6MTU := func(device string) setting.Setting {
		scope, err := setting.DeviceScope(n.Path(), device)
		if err != nil {
			t.Fatal(err)
		}
		return setting.Setting{Backend: "ipv6", Scope: scope, Key: "mtu"}
	}
	ip("link", "add", "name", "a", "type", "veth", "peer", "name", "b")
	settings, first := setting.NewSettings(setting.Backends("")...), ipv6MTU("a")
	ip("link", "set", "dev", "a", "name", "c")
	ip("link", "set", "dev", "b", "name", "a")
	if err := settings.Write(first, setting.Text("1400")); err != nil {
		t.Fatal(err)
	}
	for device, want := range map[string]string{"c": "1400\n", "a": "1500\n"} {
		if v, err := settings.Read(ipv6MTU(device)); err != nil || v.String() != want {
			t.Errorf("%s has %q, %v; want %q", device, v, err, want)
		}
	}
}
