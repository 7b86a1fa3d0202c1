package agenttest

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/venturi-net/venturi/internal/vm"
)

// HoldGuest is the role of the holder of a virtual machine, which paths of labs
// may need: args are those of `venturi guest`. The test binary must also call
// guest.Main before anything else, for the inside. It returns the exit code.
func HoldGuest(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	err := vm.Hold(ctx, vm.HoldOptions{
		Config: valueOf(args, "--config"), Socket: valueOf(args, "--socket"), Stdin: os.Stdin})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
