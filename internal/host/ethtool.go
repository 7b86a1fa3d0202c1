package host

import "runtime"

// frameSize is the part of the stack that one call of inFrames takes, bytes.
const frameSize = 56 << 10

// AskEthtool asks the ethtool library something about a device, on a stack that stays where it is. The
// library hands the kernel the address of a variable on the stack as a number. If the stack grows or
// shrinks just then, Go moves it, the variable too, and the kernel writes to where it was: nothing is read, or
// memory of something else is overwritten. So it grows before the question, and more than a quarter of it is
// used then: Go makes no such stack smaller.
func AskEthtool[T any](question func(device string) (T, error), device string) (answer T, err error) {
	done := make(chan struct{})
	go func() { // its stack is as large as it is made here
		defer close(done)
		inFrames(usedFrames, func() {
			inFrames(roomFrames, func() {})
			answer, err = question(device)
		})
	}()
	<-done
	return answer, err
}

// inFrames runs a function when that many frames of frameSize are on the stack.
//
//go:noinline
func inFrames(n int, run func()) {
	if n == 0 {
		run()
		return
	}
	var frame [frameSize]byte
	inFrames(n-1, run)
	runtime.KeepAlive(&frame)
}
