package bpf_test

import (
	"net"
	"net/netip"
	"slices"
	"testing"

	"github.com/gopacket/gopacket/layers"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
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
	for range 2 {
		check(t, r.objs.ForgetAddrs(map[uint32]bool{second: true}))
	}
	if now, err := r.objs.AddrWord(remoteAddr6); err != nil || now != second {
		t.Errorf("its number was %d, then %d, and is %d now: %v", first, second, now, err)
	}
}

// What would be carried if there were room for the address of its other end is told apart from what is not known,
// as where there is no room for the flow.
func TestAddressesFull(t *testing.T) {
	testenv.Root(t)
	onCore(t, 0)
	const learnAfter = 8
	for _, full := range []string{"numbers", "addresses"} {
		r := rig6Of(t, layers.IPProtocolUDP, bpf.Routed6+" with few "+full, func() (*bpf.Objects, error) {
			return bpf.NewSmall(bpf.Routed6, 0, 2, full) // those of the rig's flow
		})
		r.put(t)
		r.putHop(t, bpf.Routed6)
		other := netip.MustParseAddr("fd00:10:244:1::3").AsSlice()
		out, in, forwarded := r.podPacket6(), r.received6(), r.podPacket6()
		out.ip.DstIP, in.ip.SrcIP, forwarded.ip.DstIP = other, other, other
		forwarded.eth.SrcMAC, forwarded.eth.DstMAC = r.wireMAC, farMAC
		for range learnAfter {
			r.expect6(t, r.objs.FromPod, r.pod, out, bpf.SlowUnknown)
		}
		r.run(t, stamped(t, r.objs.ToPeer, r.epoch), r.wire, forwarded.bytes(t))
		r.expect6(t, r.objs.FromPod, r.pod, out, bpf.SlowFull)
		r.expect6(t, r.objs.FromWire, r.wire, in, bpf.SlowFull+bpf.PerDirection)
	}
}

// No flow is learned by a number that is another address's: it would lead what is for that one to this one's peer.
// The same packets are learned from if the addresses are those that have the numbers.
func TestLearnsByNoOtherNumber(t *testing.T) {
	testenv.Root(t)
	onCore(t, 0)
	for _, way := range []string{"out", "in", "out, of the pod"} {
		for _, misnamed := range []bool{true, false} {
			r := newRig6(t, layers.IPProtocolUDP)
			r.put(t)
			r.putHop(t, bpf.Routed6)
			out, in, forwarded, arrived := r.podPacket6(), r.received6(), r.podPacket6(), r.received6()
			forwarded.eth.SrcMAC, forwarded.eth.DstMAC = r.wireMAC, farMAC
			arrived.eth.SrcMAC, arrived.eth.DstMAC = gatewayMAC, podMAC
			other := netip.MustParseAddr("fd00:10:244:1::3")
			switch {
			case misnamed && way == "out, of the pod":
				strange := netip.MustParseAddr("fd00:10:244::99")
				forwarded.ip.SrcIP = strange.AsSlice()
				check(t, r.objs.Misname(strange, r.key.Local))
			case misnamed:
				for _, addr := range []*net.IP{&out.ip.DstIP, &in.ip.SrcIP, &forwarded.ip.DstIP, &arrived.ip.SrcIP} {
					*addr = other.AsSlice()
				}
				check(t, r.objs.Misname(other, r.key.Remote))
			}
			check(t, r.objs.Flows.Delete(r.key))
			for range 8 {
				r.run(t, r.objs.FromPod, r.pod, out.bytes(t))
				r.run(t, r.objs.FromWire, r.wire, in.bytes(t))
			}
			if way == "in" {
				r.run(t, stamped(t, r.objs.ToPod, r.epoch), r.pod, arrived.bytes(t))
			} else {
				r.run(t, stamped(t, r.objs.ToPeer, r.epoch), r.wire, forwarded.bytes(t))
			}
			if learned := hasFlow(t, r.objs, r.key); learned == misnamed {
				t.Errorf("%s, with the number of another address %v: the flow is learned: %v", way, misnamed, learned)
			}
		}
	}
}

// What no flow and no pod has any more is forgotten, with the slots that know it, when that is found the second time
// in a row: the first time its flow may have just been deleted, and the daemon may still have to look it up.
func TestForgetsAddresses(t *testing.T) {
	testenv.Root(t)
	onCore(t, 0)
	r := newRig6(t, layers.IPProtocolUDP)
	r.put(t)
	p := r.podPacket6().bytes(t)
	carried := func() bool {
		verdict, _ := r.run(t, r.objs.FromPod, r.pod, p)
		return verdict == redirect
	}
	if !carried() {
		t.Fatalf("not carried: %v", r.counted(t))
	}
	r.objs.KeepPods(slices.Values([]uint32{r.key.Local}))
	used := map[uint32]bool{r.key.Remote: true}
	for i, of := range []map[uint32]bool{used, used, nil, used, nil} {
		check(t, r.objs.ForgetAddrs(of))
		if !carried() {
			t.Fatalf("the %dth time, an address is forgotten that a flow has, or had the time before", i+1)
		}
	}
	check(t, r.objs.ForgetAddrs(nil))
	if carried() {
		t.Error("a flow is carried whose address is forgotten")
	}
	if _, _, ok := r.objs.Ends(r.key); !ok {
		t.Error("the daemon does not know the address any more that was forgotten last")
	}
	check(t, r.objs.ForgetAddrs(nil))
	if _, _, ok := r.objs.Ends(r.key); ok {
		t.Error("the forgotten address still has its number")
	}
	again, err := r.objs.AddrWord(remoteAddr6)
	check(t, err)
	if again == r.key.Remote {
		t.Errorf("number %d was given twice", again)
	}
	pod, err := r.objs.AddrWord(podAddr6)
	if check(t, err); pod != r.key.Local {
		t.Errorf("the address of a pod had number %d, and now has %d", r.key.Local, pod)
	}
}

// Numbers begin again after the last one, and those that a program has given since the last time are kept.
func TestNumbersBeginAgain(t *testing.T) {
	onCore(t, 0)
	const learnAfter, greatest = 8, 1<<31 - 1
	r := newRig6(t, layers.IPProtocolUDP)
	r.put(t)
	r.putHop(t, bpf.Routed)
	check(t, r.objs.SetLastNumber(greatest-1))
	// learn has a flow learned, and gives the number of its other end; 0: it has none.
	learn := func(other netip.Addr) uint32 {
		out, forwarded := r.podPacket6(), r.podPacket6()
		out.ip.DstIP, forwarded.ip.DstIP = other.AsSlice(), other.AsSlice()
		forwarded.eth.SrcMAC, forwarded.eth.DstMAC = r.wireMAC, farMAC
		for range learnAfter + 2 {
			r.run(t, r.objs.FromPod, r.pod, out.bytes(t))
		}
		r.run(t, stamped(t, r.objs.ToPeer, r.epoch), r.wire, forwarded.bytes(t))
		k, _, err := r.objs.Key(0, uint8(layers.IPProtocolUDP), netip.AddrPortFrom(podAddr6, 4000), netip.AddrPortFrom(other, 5000))
		check(t, err)
		return k.Remote
	}
	before, after, third := netip.MustParseAddr("fd00:10:244:1::3"), netip.MustParseAddr("fd00:10:244:1::4"), netip.MustParseAddr("fd00:10:244:1::5")
	if number := learn(before); number != greatest {
		t.Fatalf("the last number is %d", number)
	}
	check(t, r.objs.ForgetAddrs(nil))
	first := learn(after)
	if first == 0 { // there is no number 0
		first = learn(after)
	}
	if first == 0 || first > 3 {
		t.Fatalf("then the number %d is given", first)
	}
	check(t, r.objs.ForgetAddrs(nil))
	if number := learn(after); number != first {
		t.Errorf("the number %d, which was given meanwhile, is forgotten: %d", first, number)
	}
	// One that is still of another address is not given.
	check(t, r.objs.SetLastNumber(first-1))
	number := learn(third)
	if number == 0 {
		number = learn(third)
	}
	if number == first || number == 0 {
		t.Errorf("a third address has the number %d", number)
	}
}

// Addresses are forgotten some at a time, and the daemon can give a number to a pod in between.
func TestForgetsSomeAddressesAtATime(t *testing.T) {
	onCore(t, 0)
	r := newRig6(t, layers.IPProtocolUDP)
	const many, batch = 1000, 256
	addrOf := func(i int) netip.Addr {
		a := netip.MustParseAddr("fd00:77::").As16()
		a[14], a[15] = byte(i>>8), byte(i)
		return netip.AddrFrom16(a)
	}
	for i := range many {
		_, err := r.objs.AddrWord(addrOf(i))
		check(t, err)
	}
	r.objs.KeepPods(slices.Values([]uint32{}))
	batches := 0
	r.objs.OnVersion(func() { batches++ })
	for range 2 {
		check(t, r.objs.ForgetAddrs(nil))
	}
	if batches < many/batch {
		t.Errorf("%d addresses are forgotten in %d steps", many, batches)
	}
	for i := range many {
		if _, ok, err := r.objs.Key(0, 17, netip.AddrPortFrom(addrOf(i), 1), netip.AddrPortFrom(addrOf(i), 1)); ok || err != nil {
			t.Fatalf("address %d is not forgotten: %v", i, err)
		}
	}
}
