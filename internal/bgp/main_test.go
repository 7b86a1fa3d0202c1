package bgp_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/venturi-net/venturi/internal/bgp"
	"github.com/venturi-net/venturi/internal/testenv"
)

func TestMain(m *testing.M) {
	testenv.Main(m, testenv.Roles{"speaker": speaker})
}

// speaker is what `venturi speaker --config FILE` is.
func speaker(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := bgp.Main(ctx, bgp.Options{Config: args[1], Stdin: os.Stdin, Log: os.Stderr}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
