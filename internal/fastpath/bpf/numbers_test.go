package bpf_test

import (
	"slices"
	"testing"

	"github.com/gopacket/gopacket/layers"

	"github.com/venturi-net/venturi/internal/testenv"
)

// An address that has got another number meanwhile keeps that one when its first is taken back.
func TestForgetsFirstOfTwoNumbers(t *testing.T) {
	testenv.Root(t)
	r := newRig6(t, layers.IPProtocolUDP)
	first, err := r.objs.AddrWord(remoteAddr6)
	check(t, err)
	second := first + 1000
	check(t, r.objs.Renumber(remoteAddr6, second))
	r.objs.KeepPods(slices.Values([]uint32{}))
	last, _, err := r.objs.LastNumber()
	check(t, err)
	check(t, r.objs.ForgetAddrs(map[uint32]bool{second: true}, last))
	if now, err := r.objs.AddrWord(remoteAddr6); err != nil || now != second {
		t.Errorf("its number was %d, then %d, and is %d now: %v", first, second, now, err)
	}
}
