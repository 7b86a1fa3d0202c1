package agent

import "net"

// What the tests outside of the package look at. They are outside because the
// test environment stands on packages that may come to use this one.
var (
	Listen       = listen
	ListenClosed = listenClosed
	Peer         = peer
	Hush         = hush
)

const MemoryLimit = memoryLimit

// Guard makes a listener that asks allow about each peer.
func Guard(l *net.UnixListener, allow func(uint32) bool) net.Listener {
	return &guarded{UnixListener: l, allow: allow}
}
