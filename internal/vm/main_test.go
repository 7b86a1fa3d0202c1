package vm_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/guest"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/vm"
)

func TestMain(m *testing.M) {
	if code, ok := guest.Main(os.Args, os.Stderr); ok {
		os.Exit(code)
	}
	testenv.Main(m, testenv.Roles{"hold": hold, "wait": wait})
}

// hold is `venturi guest`, with the config args[1] and the socket args[2].
func hold(args []string) int {
	if err := vm.Hold(context.Background(), vm.HoldOptions{Config: args[1], Socket: args[2], Stdin: os.Stdin}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// wait is a command that runs on.
func wait([]string) int {
	fmt.Println("ready")
	time.Sleep(time.Minute)
	return 0
}
