package agenttest

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/venturi-net/venturi/internal/bgp"
	"github.com/venturi-net/venturi/internal/fastpath"
)

// RunSpeaker is the role of a BGP speaker, which paths of labs may need: args are
// those of `venturi speaker`. It returns the exit code.
func RunSpeaker(args []string) int {
	return serve(func(ctx context.Context) error {
		return bgp.Main(ctx, bgp.Options{Config: valueOf(args, "--config"), Stdin: os.Stdin, Log: os.Stderr})
	})
}

// RunFastPath is the role of a fast path's daemon: args are those of `venturi
// fastpath`. It returns the exit code.
func RunFastPath(args []string) int {
	return serve(func(ctx context.Context) error {
		return fastpath.Main(ctx, fastpath.Options{Config: valueOf(args, "--config"), Stdin: os.Stdin, Replace: slices.Contains(args, "--replace")})
	})
}

func serve(run func(context.Context) error) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
