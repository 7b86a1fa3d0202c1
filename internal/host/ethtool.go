package host

// stackRoom is more than the frames of any call of the ethtool library take, bytes.
const stackRoom = 64 << 10

// AskEthtool asks the ethtool library something about a device, on a stack with room. The library
// hands the kernel the address of a variable on the stack as a number. If the stack grows just then, Go
// moves it, the variable too, and the kernel writes to where it was: nothing is read, or memory of something
// else is overwritten.
func AskEthtool[T any](question func(device string) (T, error), device string) (T, error) {
	growStack(0)
	return question(device)
}

// growStack makes the stack of the calling goroutine larger by stackRoom than it needs now.
//
//go:noinline
func growStack(i int) byte {
	var room [stackRoom]byte
	room[stackRoom-1-i] = 1
	return room[i]
}
