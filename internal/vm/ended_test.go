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
