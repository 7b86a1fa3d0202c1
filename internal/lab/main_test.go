package lab_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/testenv"
)

func TestMain(m *testing.M) {
	testenv.Main(m, testenv.Roles{
		"agent": agent, "mute": mute, "quitter": quitter, "holder": holder, "owner": owner, "bare": bare,
		"beside": changeNetnsFolder, "stranger": stranger, "contained": contained,
	})
}

// long is a wait that only a hang exceeds.
const long = 20 * time.Second

// agent is all that the lab wants of an agent: it listens until its standard
// input ends, or for ever when detached.
func agent(args []string) int {
	flags := flag.NewFlagSet("agent", flag.ExitOnError)
	socket := flags.String("socket", "", "")
	_ = flags.String("machine", "", "")
	detach := flags.Bool("detach", false, "")
	_ = flags.Parse(args[1:])
	l, err := net.Listen("unix", *socket)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer l.Close()
	if *detach {
		forever()
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// mute never listens.
func mute([]string) int { _, _ = io.Copy(io.Discard, os.Stdin); return 0 }

// quitter gives a reason and ends.
func quitter([]string) int { fmt.Fprintln(os.Stderr, "no such luck"); return 7 }

// holder holds the measuring lock until its standard input ends.
func holder([]string) int {
	unlock, err := lab.LockMeasure(context.Background(), true, "venturi compare vxlan", nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer unlock()
	fmt.Println("held")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// owner raises the lab args[1] with agents and waits to be killed.
func owner(args []string) int {
	exe, err := os.Executable()
	if err == nil {
		_, err = lab.Up(context.Background(), lab.Options{
			Name: args[1], Paths: []string{"routed"}, AgentCommand: []string{exe, "agent"},
		})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("up")
	forever()
	return 0
}

func folder(name string) string { return filepath.Join(lab.Folder, name) }

// forever does not return. An empty select would not do: without cgo the
// runtime finds out that nothing can ever happen, and panics.
func forever() {
	for {
		time.Sleep(time.Hour)
	}
}
