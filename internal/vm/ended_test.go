package vm

import (
	"errors"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/guest"
	"github.com/venturi-net/venturi/internal/kernel"
	"github.com/venturi-net/venturi/internal/verr"
)

// If a kernel's modules are missing, the guest has no channel. The error says where the modules
// belong, not which port is missing.
func TestEndedWithoutModules(t *testing.T) {
	k := kernel.Kernel{Release: "6.1.0-1-amd64", Image: "/k/bzImage"}
	console := []string{guest.FailurePrefix + guest.NoChannel + " 0 virtio-serial ports is named venturi"}
	if !mute(Config{Kernel: k}, console) {
		t.Error("it is not seen that the guest could not be heard")
	}
	k.Modules = "/k/lib/modules"
	if mute(Config{Kernel: k}, console) {
		t.Error("a kernel with modules is said to have none")
	}
	told := new(verr.Error)
	if err := noModules(Config{Kernel: k}); !errors.As(err, &told) || told.Code != verr.Missing ||
		!strings.Contains(told.Reason, "/k/lib/modules/"+k.Release) {
		t.Errorf("without modules it ended with %v", err)
	}
}

// The end of a machine whose kernel panicked is told in a line: the fault and where it is, and
// not the registers and calls that a kernel prints.
func TestEndedByPanic(t *testing.T) {
	console := []string{
		"[  183.1] Loading something",
		"[  183.2] BUG: kernel NULL pointer dereference, address: 08",
		"[  183.3] #PF: supervisor read access in kernel mode",
		"[  183.4] RIP: 0010:napi_gro_complete+0x1/0x2",
		"[  183.5] R10: e0d0 R11: ffff",
		"[  183.6]  virtnet_poll+0x712/0xeaa [virtio_net]",
		"[  183.7] RIP: 0010:pv_native_safe_halt+0xf/0x20",
		"[  183.8] Kernel panic - not syncing: Fatal exception in interrupt",
	}
	const want = "panicked; its console says: BUG: kernel NULL pointer dereference, address: 08; RIP: 0010:napi_gro_complete+0x1/0x2"
	if got := saidOfFault("panicked", console); got != want {
		t.Errorf("it says %q", got)
	}
	if got := saidOfFault("panicked", console[:1]); !strings.Contains(got, "console ends with") || !strings.Contains(got, "Loading something") {
		t.Errorf("without a fault it says %q", got)
	}
}
