package testenv

import (
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// UnnamedNetns makes a network namespace that has no name and ends with the test, with its
// loopback up, and gives its file, /proc/PID/task/TID/ns/net.
func UnnamedNetns(t testing.TB) string {
	t.Helper()
	Root(t)
	up, release, gone := make(chan error, 1), make(chan struct{}), make(chan struct{})
	var file string
	go func() {
		defer close(gone)
		runtime.LockOSThread() // never unlocked: the namespace ends with the thread
		file = fmt.Sprintf("/proc/%d/task/%d/ns/net", os.Getpid(), unix.Gettid())
		err := unix.Unshare(unix.CLONE_NEWNET)
		var lo netlink.Link
		if err == nil {
			lo, err = netlink.LinkByName("lo")
		}
		if err == nil {
			err = netlink.LinkSetUp(lo)
		}
		up <- err
		<-release
	}()
	t.Cleanup(func() { close(release); <-gone })
	if err := <-up; err != nil {
		t.Fatalf("make network namespace: %v", err)
	}
	return file
}
