package change_test

import (
	"io"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/venturi-net/venturi/internal/testenv"
)

func TestMain(m *testing.M) {
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
			select {}
		},
	})
}
