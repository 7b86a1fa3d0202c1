package host

import (
	"testing"
	"unsafe"
)

// What a question has on its stack stays where it is until it is answered, also where it calls
// functions that need more of the stack.
func TestAskEthtoolOnStackThatStays(t *testing.T) {
	deeper := func() { _ = useStack(0) }
	for range 100 {
		moved := make(chan bool)
		go func() { // with a stack of its own, which begins small
			ask := func(string) (bool, error) {
				var answer [64]byte
				before := uintptr(unsafe.Pointer(&answer))
				deeper()
				return before != uintptr(unsafe.Pointer(&answer)), nil
			}
			m, _ := AskEthtool(ask, "eth0")
			moved <- m
		}()
		if <-moved {
			t.Fatal("the stack moved while a question was asked")
		}
	}
}

// useStack needs as much of the stack as the largest call of the library.
//
//go:noinline
func useStack(i int) byte {
	var room [40 << 10]byte
	room[len(room)-1-i] = 1
	return room[i]
}
