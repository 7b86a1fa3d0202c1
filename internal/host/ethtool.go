package host

import "runtime"

const (
	// stackRoom is more than the frames of any call of the ethtool library take, bytes.
	stackRoom = 40 << 10
	// stackUsed is more than a quarter of a stack that holds it and stackRoom: Go makes no stack smaller of
	// which that is used.
	stackUsed = 56 << 10
)

// AskEthtool asks the ethtool library something about a device, on a stack that stays where it is. The
// library hands the kernel the address of a variable on the stack as a number. If the stack grows or
// shrinks just then, Go moves it, the variable too, and the kernel writes to where it was: nothing is read, or
// memory of something else is overwritten.
func AskEthtool[T any](question func(device string) (T, error), device string) (answer T, err error) {
	done := make(chan struct{})
	go func() { // its stack is as large as it is made here
		defer close(done)
		var used [stackUsed]byte
		growStack(&used, 0)
		answer, err = question(device)
		runtime.KeepAlive(&used)
	}()
	<-done
	return answer, err
}

// growStack makes the stack of the calling goroutine larger by stackRoom than it needs now.
//
//go:noinline
func growStack(used *[stackUsed]byte, i int) {
	var room [stackRoom]byte
	room[stackRoom-1-i] = 1
	used[i] = room[i]
}
