package netcfg

import (
	"context"
	"errors"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/venturi-net/venturi/internal/nlmsg"
)

// carrierSilence is after how long the kernel announces no more carriers: it does so once a second.
const carrierSilence = 2 * time.Second

// AwaitCarriers waits until all veth devices are up, and the kernel has announced it, 100 of them a
// second: a list of devices has their states before. Error: ctx has ended before.
func (n *Namespace) AwaitCarriers(ctx context.Context) error {
	watching, stop := context.WithCancel(ctx)
	changes := make(chan netlink.LinkUpdate)
	err := n.Do(func() error {
		return netlink.LinkSubscribeWithOptions(changes, watching.Done(), netlink.LinkSubscribeOptions{ErrorCallback: func(error) {}})
	})
	if err != nil {
		stop()
		return n.Wrap("watch devices", err)
	}
	defer func() {
		stop()
		for range changes { // until it is closed
		}
	}()
	down := "any device" // was looked at
	for silence := time.NewTimer(carrierSilence); ; silence.Reset(carrierSilence) {
		select {
		case <-ctx.Done():
			return n.Wrap("wait until "+down+" is up and announced", context.Cause(ctx))
		case _, open := <-changes:
			if !open && ctx.Err() == nil {
				return n.Wrap("watch devices", errors.New("the kernel's announcements have ended"))
			}
		case <-silence.C:
			if down, err = n.vethDown(); err != nil || down == "" {
				return err
			}
		}
	}
}

// vethDown names a veth device that is not up; "": all are.
func (n *Namespace) vethDown() (string, error) {
	links, err := nlmsg.Dump(n.h.LinkList)
	if err != nil {
		return "", n.Wrap("list devices", err)
	}
	for _, l := range links {
		if l.Type() == "veth" && l.Attrs().OperState != netlink.OperUp {
			return l.Attrs().Name, nil
		}
	}
	return "", nil
}
