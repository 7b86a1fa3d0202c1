package manypods

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
)

// Figures are what one start of a daemon took.
type Figures struct {
	First   time.Duration // from the start of its process until the packets of a pod are carried
	All     time.Duration // the same, of all pods
	CPU     time.Duration // until the first pod is carried
	Idle    float64       // share of a core, while nothing happens
	Memory  int64         // resident then, bytes
	Private int64         // what of it are not pages of the program's file
}

// settle is how long a daemon has until it is idle.
const settle = 3 * time.Second

// Limit bounds every wait for a daemon, or for the devices of the node: the kernel announces 100 a second.
func (n *CrowdedNode) Limit() time.Duration {
	return host.ScaleTimeout(20*time.Second + time.Duration(len(n.Devices.Pods))*time.Second/10)
}

// AwaitDevices waits until all devices are up, and nobody is told of them any more.
func (n *CrowdedNode) AwaitDevices(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, n.Limit(), fmt.Errorf("it takes longer than %v", n.Limit()))
	defer cancel()
	return errors.Join(n.Netns.AwaitCarriers(ctx), n.Ends.AwaitCarriers(ctx))
}

// Measure starts a daemon by a program, measures what it takes until all pods are carried, and then for
// a while of idleness, and ends it.
func (n *CrowdedNode) Measure(ctx context.Context, program []string, idle time.Duration) (f Figures, err error) {
	n.starts++
	c := n.Config
	c.State = filepath.Join(n.folder, fmt.Sprintf("state%d", n.starts)) // it outlives its daemon
	if err := c.Write(n.File); err != nil {
		return f, err
	}
	begin := time.Now()
	daemon, err := n.Netns.Start(netcfg.Command{
		Args: append(append([]string{}, program...), "fastpath", "--config", n.File), Log: filepath.Join(n.folder, "daemon.log"),
	})
	if err != nil {
		return f, err
	}
	defer daemon.Stop(n.Limit())
	await := func(pods int) (time.Duration, error) {
		err := daemon.Await(ctx, n.Limit(), func(context.Context) error { return carries(c.State, pods) })
		return time.Since(begin), err
	}
	if f.First, err = await(1); err != nil {
		return f, err
	}
	if f.CPU, err = (host.Reader{}).CPUTime(daemon.Pid); err != nil {
		return f, err
	}
	if f.All, err = await(len(n.Devices.Pods)); err != nil {
		return f, err
	}
	if f.Idle, err = measureIdle(ctx, daemon.Pid, idle); err != nil {
		return f, err
	}
	f.Memory, f.Private, err = host.Reader{}.ResidentMemory(daemon.Pid)
	return f, err
}

// carries is why a daemon does not carry the packets of so many pods yet; nil: it does.
func carries(state string, pods int) error {
	s, err := fastpath.ReadState(state)
	switch {
	case err != nil:
		return err
	case s.Off != "":
		return errors.New(s.Off)
	case s.Pods < pods:
		return fmt.Errorf("%d of %d pods are carried, %d wait", s.Pods, pods, s.Waiting)
	}
	return nil
}

// measureIdle measures which share of a core a daemon takes that has nothing to do.
func measureIdle(ctx context.Context, pid int, lasting time.Duration) (share float64, err error) {
	if err := host.Sleep(ctx, settle); err != nil {
		return 0, err
	}
	before, err := host.Reader{}.CPUTime(pid)
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	if err := host.Sleep(ctx, lasting); err != nil {
		return 0, err
	}
	after, err := host.Reader{}.CPUTime(pid)
	if err != nil {
		return 0, err
	}
	return (after - before).Seconds() / time.Since(begin).Seconds(), nil
}
