// Package ovs runs Open vSwitch: for each switch a database server and a
// switch daemon of its own, in a network namespace and a folder that it is
// given. What is configured goes through the database, flows through
// ovs-ofctl. What it runs never touches the machine's own Open vSwitch. That one,
// and others that somebody else runs, are looked at, and their databases are a
// backend of settings for the journal.
package ovs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
)

// The programs that this package runs.
var (
	serverProgram = feature.Program{Name: "ovsdb-server", Package: "openvswitch-common"}
	toolProgram   = feature.Program{Name: "ovsdb-tool", Package: "openvswitch-common"}
	flowsProgram  = feature.Program{Name: "ovs-ofctl", Package: "openvswitch-common"}
	switchProgram = feature.Program{Name: "ovs-vswitchd", Package: "openvswitch-switch"}
)

// Needs is what a switch needs of the machine, beside a datapath.
func Needs() []feature.Need {
	return []feature.Need{switchProgram, serverProgram, toolProgram, flowsProgram}
}

// Runtime is where daemons live and how they are started.
type Runtime struct {
	In *netcfg.Namespace
	// Folder holds their databases, sockets and logs. It must be there, and its
	// path short enough for sockets in it.
	Folder string
	// Start starts a daemon inside of In. Whoever gives it also ends what it
	// started: nothing here does.
	Start func(netcfg.Command) (*netcfg.Child, error)
}

// file is the path of a file in the folder.
func (r Runtime) file(name string) string { return filepath.Join(r.Folder, name) }

// Command makes the command of one of the programs of Open vSwitch and OVN. The
// environment keeps it from using the folders of the machine's own, in which
// there may even be what overrides what it is told.
func (r Runtime) Command(program feature.Program, args ...string) (netcfg.Command, error) {
	file, err := program.Find()
	if err != nil {
		return netcfg.Command{}, err
	}
	var env []string
	for _, suite := range []string{"OVS_", "OVN_"} {
		for _, folder := range []string{"RUNDIR", "LOGDIR", "DBDIR", "SYSCONFDIR"} {
			env = append(env, suite+folder+"="+r.Folder)
		}
	}
	return netcfg.Command{Args: append([]string{file}, args...), Env: env}, nil
}

// run runs a program to its end, for which it gets [daemonTimeout].
func (r Runtime) run(ctx context.Context, input string, program feature.Program, args ...string) error {
	c, err := r.Command(program, args...)
	if err != nil {
		return err
	}
	return While(ctx, daemonTimeout, "run "+program.Name, func(ctx context.Context) error {
		_, err := r.In.Run(ctx, c, input)
		return err
	})
}

// Daemon starts a daemon of Open vSwitch or OVN. What it logs goes to a file
// of its name in the folder, and it takes commands there; see [Runtime.Ask].
func (r Runtime) Daemon(name string, program feature.Program, args ...string) (*netcfg.Child, error) {
	// Nothing is written to the machine's own log, and to the file only what
	// somebody should read who wonders why the daemon ended.
	args = append(args, "-vsyslog:off", "-vconsole:warn", "--unixctl="+r.control(name))
	c, err := r.Command(program, args...)
	if err != nil {
		return nil, err
	}
	c.Log = r.file(name + ".log")
	return r.Start(c)
}

// control is the socket over which a daemon takes commands.
func (r Runtime) control(name string) string { return r.file(name + ".ctl") }

// daemonTimeout is how long a daemon gets for one thing that is asked of it: far
// more than it needs on a busy machine, so that only a hang exceeds it.
var daemonTimeout = host.ScaleTimeout(30 * time.Second)

// While runs fn with a context that ends when one of the daemons does, or after
// limit. If fn fails for that, the error says so: which daemon ended, or what was not
// done in time, with what fn and the daemons say.
func While(
	ctx context.Context, limit time.Duration, what string, fn func(context.Context) error, daemons ...*netcfg.Child,
) error {
	late := fmt.Errorf("not done after %v", limit)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, late)
	defer cancel()
	ctx, end := context.WithCancelCause(ctx)
	var watched sync.WaitGroup
	for _, daemon := range daemons {
		watched.Go(func() {
			select {
			case <-daemon.Done:
				end(daemon.ExitError())
			case <-ctx.Done():
			}
		})
	}
	err := fn(ctx)
	if err != nil {
		// A connection breaks a little before its daemon is known to be dead.
		cause := host.Sleep(ctx, grace)
		if cause == late {
			cause = notDone(what, late, err, daemons)
		}
		err = cmp.Or(cause, err)
	}
	end(nil)
	watched.Wait()
	return err
}

// notDone is the error of what was not done in time, and failed then. That is not wrapped: to be broken off is no
// interruption.
func notDone(what string, late, failed error, daemons []*netcfg.Child) error {
	text := fmt.Sprintf("%s: %v", what, late)
	if failed != late && failed != context.DeadlineExceeded { // it says no more
		text += fmt.Sprintf(": %v", failed)
	}
	for _, daemon := range daemons {
		if output := daemon.LastOutput(); output != "" {
			text += "; " + output
		}
	}
	return errors.New(text)
}

// grace is for a machine so busy that the end of a process is seen late. Only what
// fails for another reason takes so long.
const grace = time.Second
