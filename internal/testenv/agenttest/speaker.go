package agenttest

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/venturi-net/venturi/internal/bgp"
)

// Speak is the role of a BGP speaker, which paths of labs may need: args are
// those of `venturi speaker`. It returns the exit code.
func Speak(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := bgp.Main(ctx, bgp.Options{Config: valueOf(args, "--config"), Stdin: os.Stdin, Log: os.Stderr}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
