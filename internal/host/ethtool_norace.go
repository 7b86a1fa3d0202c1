//go:build !race

package host

const (
	roomFrames = 1 // more than any call of the ethtool library takes
	usedFrames = 1 // more than a quarter of the stack with both
)
