package host

import (
	"runtime"
	"testing"
	"unsafe"

	"github.com/safchain/ethtool"
)

// What a question has on its stack stays where it is until it is answered, also where it calls
// functions that need more of the stack, and while garbage is collected, which makes stacks smaller.
func TestAskEthtoolOnStackThatStays(t *testing.T) {
	tool, err := ethtool.NewEthtool()
	if err != nil {
		t.Fatal(err)
	}
	defer tool.Close()
	for what, meanwhile := range map[string]func(){
		"calls":      func() { _ = useStack(0) },
		"collection": runtime.GC,
		"the largest call of the library, then a collection": func() {
			if names, err := tool.Features("lo"); err != nil || len(names) == 0 {
				t.Errorf("Features = %v, %v", names, err)
			}
			runtime.GC()
		},
	} {
		ask := func(string) (bool, error) {
			var answer [64]byte
			before := uintptr(unsafe.Pointer(&answer))
			meanwhile()
			return before != uintptr(unsafe.Pointer(&answer)), nil
		}
		for range 100 {
			if moved, _ := AskEthtool(ask, "eth0"); moved {
				t.Fatalf("%s: the stack moved while a question was asked", what)
			}
		}
	}
}

// useStack needs as much of the stack as the largest call of the library.
//
//go:noinline
func useStack(i int) byte {
	var room [32 << 10]byte
	room[len(room)-1-i] = 1
	return room[i]
}
