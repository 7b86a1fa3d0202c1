package path_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/path"
	"github.com/venturi-net/venturi/internal/testenv"
)

func TestMain(m *testing.M) {
	testenv.Main(m, testenv.Roles{"builder": builder})
}

// builder raises a lab of the given name with every path and takes it down,
// over and over, until it is killed.
func builder(args []string) int {
	for {
		l, err := lab.Up(context.Background(), lab.Options{Name: args[1], Paths: path.Names(), Services: 20})
		if err == nil {
			err = l.Down()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
}
