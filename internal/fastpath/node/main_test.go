package node_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/discover"
	"github.com/venturi-net/venturi/internal/fastpath/node"
	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m, testenv.Roles{"enable": enable}) }

// enable is a process that enables the fast path of the namespace that it is in: FOLDER TRIAL, and
// "filters" if its programs are to be tc filters, as on older kernels.
func enable(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	plan, err := discover.Find()
	if err == nil {
		trial, _ := time.ParseDuration(args[2])
		config := plan.Config()
		config.TC = len(args) > 3 && args[3] == "filters"
		_, err = node.Enable(ctx, config, node.Options{
			Open: func() (*journal.Journal, error) { return openJournal(args[1]) }, Trial: trial,
			Hold:   func(int) error { return nil },
			Report: func(s fastpath.State) { fmt.Fprintf(os.Stderr, "%+v\n", s) },
		})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func openJournal(folder string) (*journal.Journal, error) {
	return journal.Open(journal.Options{
		Folder: folder, Settings: setting.NewSettings(node.Backend()), Wait: 10 * time.Second, User: "test", Command: "test", Version: "test",
	})
}
