package remote_test

import (
	"fmt"
	"io"
	"os"
	"slices"
	"testing"

	"github.com/venturi-net/venturi/internal/remote"
	"github.com/venturi-net/venturi/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m, testenv.Roles{"agent": echo}) }

// echo plays the program on the other side: what is sent to it comes back.
func echo(args []string) int {
	folder := ""
	if i := slices.Index(args, "--remove"); i > 0 {
		folder = args[i+1]
	}
	l, err := remote.Stdio(os.Stdin, os.Stdout, folder)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	conn, err := l.Accept()
	if err != nil {
		return 1
	}
	_, _ = io.Copy(conn, conn)
	if _, err := l.Accept(); err == nil {
		return 1
	}
	return 0
}
