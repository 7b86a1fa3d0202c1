package agent

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// private checks that only this user can enter the socket's folder.
func private(socket string) error {
	dir := filepath.Dir(socket)
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("look at the socket's folder: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a folder", dir)
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return fmt.Errorf("folder %s is open to others (mode %#o)", dir, perm)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("folder %s belongs to user %d", dir, st.Uid)
	}
	return nil
}

// umask serializes the moments in which listenClosed changes the umask, which
// is one for the whole process.
var umask sync.Mutex

// listenClosed binds a socket that has mode 0600 from its first moment: a
// chmod afterwards would leave a gap.
func listenClosed(socket string) (*net.UnixListener, error) {
	umask.Lock()
	defer umask.Unlock()
	old := syscall.Umask(0o177)
	defer syscall.Umask(old)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", socket, err)
	}
	return l, nil
}

// guarded is a listener that hangs up on peers that are not allowed.
type guarded struct {
	*net.UnixListener
	allow func(uid uint32) bool
}

// Accept gives the next connection of an allowed peer.
func (g *guarded) Accept() (net.Conn, error) {
	for {
		c, err := g.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if uid, err := peer(c); err == nil && g.allow(uid) {
			return c, nil
		}
		c.Close()
	}
}

// allowedPeer lets in root and the agent's own user.
func allowedPeer(uid uint32) bool { return uid == 0 || int(uid) == os.Geteuid() }

// peer gives the user on the other end, as the kernel saw it connect.
func peer(c *net.UnixConn) (uid uint32, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("look at peer: %w", err)
	}
	var cred *syscall.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err == nil {
		err = credErr
	}
	if err != nil {
		return 0, fmt.Errorf("look at peer: %w", err)
	}
	return cred.Uid, nil
}
