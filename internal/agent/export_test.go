package agent

import (
	"net"
	"testing"
	"time"
)

// What the tests outside of the package look at. They are outside because the
// test environment stands on packages that may come to use this one.
var (
	Listen       = listen
	ListenClosed = listenClosed
	Peer         = peer
	Hush         = hush
	MeterArms    = meterArms
	ClientEnd    = clientEnd
)

const MemoryLimit = memoryLimit

// Guard makes a listener that asks allow about each peer.
func Guard(l *net.UnixListener, allow func(uint32) bool) net.Listener {
	return &guarded{UnixListener: l, allow: allow}
}

// ShortGrace makes an agent impatient until the test is over.
func ShortGrace(t *testing.T) {
	old := stopGrace
	stopGrace = 50 * time.Millisecond
	t.Cleanup(func() { stopGrace = old })
}
