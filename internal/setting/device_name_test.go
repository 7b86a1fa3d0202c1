package setting_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/testenv"
)

// A device's name is no pattern: its own files are listed, whatever it is called.
func TestDeviceFilesOfAnyName(t *testing.T) {
	a, _ := spaces(t)
	hostile := []string{"a[b", "*", "?", `a\b`, "a{b", "e\x1b[2J", "\xff"}
	testenv.InNetns(t, a.Path(), func() error {
		var failed []error
		for i, name := range hostile {
			failed = append(failed, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: fmt.Sprintf("peer%d", i)}))
		}
		return errors.Join(failed...)
	})
	for _, name := range hostile {
		scope, err := setting.DeviceScope(a.Path(), name)
		if err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		keys, err := setting.DeviceFiles(scope, "queues/rx-*/rps_cpus")
		if err != nil || !slices.Equal(keys, []string{"queues/rx-0/rps_cpus"}) {
			t.Errorf("%q has %q, %v", name, keys, err)
		}
	}
}
