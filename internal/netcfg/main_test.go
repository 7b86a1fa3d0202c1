package netcfg_test

import (
	"io"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/guest"
	"github.com/venturi-net/venturi/internal/testenv"
)

func TestMain(m *testing.M) {
	if code, ok := guest.Main(os.Args, os.Stderr); ok {
		os.Exit(code)
	}
	testenv.Main(m, testenv.Roles{
		// reader ends when its standard input does.
		"reader": func([]string) int {
			_, _ = io.Copy(io.Discard, os.Stdin)
			return 0
		},
		// deaf lives until it is killed.
		"deaf": func([]string) int {
			signal.Ignore(syscall.SIGTERM)
			os.Stdout.WriteString("deaf\n")
			forever()
			return 0
		},
	})
}

// forever does not return. An empty select would not do: without cgo the
// runtime finds out that nothing can ever happen, and panics.
func forever() {
	for {
		time.Sleep(time.Hour)
	}
}
