package load

import "time"

// Limits that the checks of this package know, and that the engine keeps.
const (
	// ControlSize is how many bytes a control frame has.
	ControlSize = 64
	// NumberSize is how much of a message holds its number: 9 bytes carry 63 bits, a
	// shorter message the low 7. With one request outstanding that tells a late
	// reply from the awaited one unless it is 128 requests late.
	NumberSize = 9
	// echoStamp is what the payload of an ICMP echo begins with: the token of the series and
	// the number of the request. ping, too, times no smaller ones.
	echoStamp = 16
	// SharedThreadSize is the size of messages up to which one thread serves all flows of an
	// end, bytes. Whatever is sent of that size the other end's kernel takes, so a send
	// never waits for a thread that waits to send, too.
	SharedThreadSize = 16 << 10
	// maxBatch is the kernel's UIO_MAXIOV: it moves no more datagrams in a call.
	maxBatch = 1024
	// MaxSegments is how many datagrams all kernels take in a call, to cut them apart.
	MaxSegments = 64
	// MaxBurst is how many packets a sender with a rate sends at once.
	MaxBurst = 32
	// ScheduleTimeout is after what time a request on a schedule counts as lost. It is longer
	// than that of a ping-pong because nothing waits for it but the end of the slice.
	ScheduleTimeout = time.Second
	// leastSlots is how many requests a slice has at least.
	leastSlots = 5
)
