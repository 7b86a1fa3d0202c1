//go:build race

package host

// Under the race detector, the compiler keeps the names of features on the stack, 1 MiB.
const (
	roomFrames = 22 // more than any call of the ethtool library takes
	usedFrames = 10 // more than a quarter of the stack with both
)
