package netcfg

import (
	"context"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// WatchRemoval gives a channel that gets a value when a device leaves a namespace, which may be by
// now, and is closed when ctx ends. Until then the namespace stays. The kernel tells of it: between
// begin and end of the watch nothing runs.
func WatchRemoval(ctx context.Context, namespace, device string) (<-chan struct{}, error) {
	n, err := openFile(namespace, namespace)
	if err != nil {
		return nil, err
	}
	defer n.Close()
	link, err := n.link(device)
	if err != nil {
		return nil, err
	}
	index := link.Attrs().Index
	changes := make(chan netlink.LinkUpdate)
	err = n.Do(func() error {
		return netlink.LinkSubscribeWithOptions(changes, ctx.Done(), netlink.LinkSubscribeOptions{ErrorCallback: func(error) {}})
	})
	if err != nil {
		return nil, n.Wrap("watch devices", err)
	}
	_, err = n.h.LinkByIndex(index)
	removed := make(chan struct{}, 1)
	go func() {
		defer close(removed)
		for gone := err != nil; !gone; { // it may have left while the watch began
			change, open := <-changes
			if !open {
				return
			}
			gone = change.Header.Type == unix.RTM_DELLINK && int(change.Index) == index
		}
		removed <- struct{}{}
		for range changes { // until the watch ends
		}
	}()
	return removed, nil
}
