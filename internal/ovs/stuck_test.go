package ovs_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/ovs"
	"github.com/venturi-net/venturi/internal/testenv"
)

// errEnough is why these tests do not wait for longer.
var errEnough = errors.New("that is enough")

// enough is a context that ends soon.
func enough(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 300*time.Millisecond, errEnough)
	t.Cleanup(cancel)
	return ctx
}

// A daemon that hangs while it starts holds nobody up.
func TestStuckAtStart(t *testing.T) {
	p, _ := place(t)
	start := p.Start
	p.Start = func(c netcfg.Command) (*netcfg.Child, error) {
		child, err := start(c)
		if err == nil {
			testenv.Must(t, unix.Kill(child.Pid, unix.SIGSTOP))
		}
		return child, err
	}
	if _, err := ovs.Start(enough(t), p); !errors.Is(err, errEnough) {
		t.Errorf("Start = %v, want that it ended when its context did", err)
	}
}

// Nor does one that hangs later, whatever it is asked.
func TestStuck(t *testing.T) {
	for i, name := range []string{"ovsdb-server", "ovs-vswitchd"} {
		t.Run(name, func(t *testing.T) {
			p, children := place(t)
			s := start(t, p)
			testenv.Must(t, s.AddBridges(t.Context(), ovs.Bridge{Name: "br0", Datapath: "netdev"}))
			testenv.Must(t, unix.Kill((*children)[i].Pid, unix.SIGSTOP))
			asks := map[string]func(context.Context) error{
				"AddPorts": func(ctx context.Context) error {
					return s.AddPorts(ctx, "br0", ovs.Port{Name: "p", Type: "internal"})
				},
			}
			if i == 0 {
				asks["Configure"] = func(ctx context.Context) error {
					return s.Configure(ctx, map[string]string{"vlan-limit": "2"})
				}
			} else {
				asks["AddFlows"] = func(ctx context.Context) error { return s.AddFlows(ctx, "br0", "actions=drop") }
				asks["Ask"] = func(ctx context.Context) error {
					_, err := s.Ask(ctx, "dpif/show")
					return err
				}
			}
			for what, ask := range asks {
				if err := ask(enough(t)); !errors.Is(err, errEnough) {
					t.Errorf("%s = %v, want that it ended when its context did", what, err)
				}
			}
		})
	}
}

// What takes too long is told with what it was, what failed last, and what the daemons said last.
func TestNotDone(t *testing.T) {
	p, children := place(t)
	start(t, p)
	server := (*children)[0]
	testenv.Must(t, os.WriteFile(filepath.Join(p.Folder, "conf.log"), []byte("it is slow\nvery slow\n"), 0o600))
	broken := errors.New("no answer")
	err := ovs.While(t.Context(), 50*time.Millisecond, "ask for more", func(ctx context.Context) error {
		<-ctx.Done()
		return broken
	}, server)
	const want = "ask for more: not done after 50ms: no answer; ovsdb-server said: it is slow; very slow"
	if err == nil || err.Error() != want {
		t.Errorf("While = %v, want %s", err, want)
	}
	err = ovs.While(t.Context(), 50*time.Millisecond, "ask for more", func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	})
	if err == nil || err.Error() != "ask for more: not done after 50ms" || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("While = %v, want what is not done, and no interruption", err)
	}
}
