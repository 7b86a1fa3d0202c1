package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"sync"

	"github.com/cilium/ebpf"
)

// The tables of IPv6; see src/inet6.h.
const (
	numbersTable   = "numbers"
	addressesTable = "addresses"
	slotNamesTable = "slot_names"
)

const (
	// firstPodNumber is the first that the daemon gives: programs give lower ones, up to MAX_NUMBER of
	// src/inet6.h, and neither can add to a counter of the other without a race.
	firstPodNumber = 1 << 31
	// forgetBatch is how many are taken back at a time: whoever adds a pod waits for no more.
	forgetBatch = 256
)

// numbers are what the addresses of IPv6 are in keys of flows and in the entries of pods.
type numbers struct {
	mu      sync.Mutex
	byAddr  *ebpf.Map    // address: number
	byNum   *ebpf.Map    // number: address
	version func() error // ends all slots
	next    uint32
	pods    map[uint32]bool       // numbers of pods
	cache   map[uint32]netip.Addr // a part of byNum
	unused  map[uint32]bool       // numbers that no flow had when some were taken back last
	former  map[uint32]netip.Addr // those taken back then: a connection whose flow was reset may still be looked up
}

// addr6 is an address of IPv6 as tables have it.
type addr6 [16]byte

func newNumbers(tables map[string]*ebpf.Map, version func() error) *numbers {
	return &numbers{
		byAddr: tables[numbersTable], byNum: tables[addressesTable], version: version, next: firstPodNumber,
		pods: map[uint32]bool{}, cache: map[uint32]netip.Addr{},
	}
}

// find finds the number of an address.
func (n *numbers) find(addr netip.Addr) (number uint32, ok bool, err error) {
	if !addr.Is6() {
		return 0, false, nil
	}
	if err = n.byAddr.Lookup(addr6(addr.As16()), &number); errors.Is(err, ebpf.ErrKeyNotExist) {
		return 0, false, nil
	}
	return number, err == nil, err
}

// give gives a number to the address of a pod, or finds the one that it has.
func (n *numbers) give(addr netip.Addr) (uint32, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	number, ok, err := n.find(addr)
	if err == nil && !ok {
		number, err = n.enter(addr)
	}
	if err != nil {
		return 0, fmt.Errorf("give a number to %v: %w", addr, err)
	}
	n.pods[number], n.cache[number] = true, addr
	return number, nil
}

// enter gives a new number to an address, unless a program does so at the same time.
func (n *numbers) enter(addr netip.Addr) (number uint32, err error) {
	number, n.next = n.next, n.next+1
	key := addr6(addr.As16())
	if err = n.byNum.Put(number, key); err != nil {
		return 0, err
	}
	if err = n.byAddr.Update(key, number, ebpf.UpdateNoExist); !errors.Is(err, ebpf.ErrKeyExist) {
		return number, err
	}
	if err = n.byNum.Delete(number); err == nil {
		number, _, err = n.find(addr)
	}
	return number, err
}

// addr is the address with a number.
func (n *numbers) addr(number uint32) (netip.Addr, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if a, ok := n.cache[number]; ok {
		return a, true
	}
	var key addr6
	if err := n.byNum.Lookup(number, &key); err != nil {
		a, ok := n.former[number]
		return a, ok
	}
	n.cache[number] = netip.AddrFrom16(key)
	return n.cache[number], true
}

// short is short_addr of src/inet6.h.
func (n *numbers) short(number uint32) (short uint32) {
	addr, _ := n.addr(number)
	b := addr.As16()
	for i := 0; i < len(b); i += 4 {
		short ^= binary.NativeEndian.Uint32(b[i:])
	}
	return short
}

// keep says which numbers are those of pods.
func (n *numbers) keep(pods iter.Seq[uint32]) {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.pods)
	for number := range pods {
		n.pods[number] = true
	}
}

// forget takes back the numbers of addresses that no pod has, and no flow: neither now nor the last time. So one that
// a program has just given, for an entry that it is about to make, is kept, and one whose flow has just been deleted:
// the daemon still looks its connection up, if it was reset. A flow may have come and gone between both times: so the
// daemon, but no program, knows those taken back until the next time.
//
// A packet may make another flow with such a number at the same time. Nothing finds its entry then, or
// nobody translates to that address, and as all slots end, nobody carries it; it is removed as any silent
// flow is, long before another address gets the number: programs give 2^31 others first.
func (n *numbers) forget(used map[uint32]bool) error {
	unused, err := n.unusedTwice(used)
	if err != nil {
		return err
	}
	n.mu.Lock()
	n.former = map[uint32]netip.Addr{}
	n.mu.Unlock()
	for batch := range slices.Chunk(unused, forgetBatch) {
		if err := n.forgetSome(batch); err != nil {
			return fmt.Errorf("forget addresses: %w", err)
		}
	}
	return nil
}

// numbered is an address with its number.
type numbered struct {
	number uint32
	addr   addr6
}

// forgetSome takes back some numbers, unless pods have got them since. An address may have got another
// number, which it keeps.
func (n *numbers) forgetSome(some []numbered) (err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	some = slices.DeleteFunc(some, func(one numbered) bool { return n.pods[one.number] })
	for _, one := range some {
		number, ok, failed := n.find(netip.AddrFrom16(one.addr))
		if ok && number == one.number {
			failed = IgnoreMissing(n.byAddr.Delete(one.addr))
		}
		err = errors.Join(err, failed)
	}
	err = errors.Join(err, n.version())
	for _, one := range some {
		delete(n.cache, one.number)
		n.former[one.number] = netip.AddrFrom16(one.addr)
		err = errors.Join(err, IgnoreMissing(n.byNum.Delete(one.number)))
	}
	return err
}

// unusedTwice finds those that no flow has, now and the last time.
func (n *numbers) unusedTwice(used map[uint32]bool) (twice []numbered, err error) {
	now := map[uint32]bool{}
	if err := eachAddr(n.byNum, func(number uint32, addr addr6) {
		switch {
		case used[number]:
		case n.unused[number]:
			twice = append(twice, numbered{number, addr})
		default:
			now[number] = true
		}
	}); err != nil {
		return nil, err
	}
	n.unused = now
	return twice, nil
}

// eachAddr lists a table of addresses by number.
func eachAddr(byNum *ebpf.Map, list func(number uint32, addr addr6)) error {
	const batch = 1024
	var cursor ebpf.MapBatchCursor
	keys, values := make([]uint32, batch), make([]addr6, batch)
	for {
		got, err := byNum.BatchLookup(&cursor, keys, values, nil)
		for i, number := range keys[:got] {
			list(number, values[i])
		}
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("list addresses: %w", err)
		}
	}
}

// IgnoreMissing drops the error of a missing key.
func IgnoreMissing(err error) error {
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil
	}
	return err
}

// ReadNumbers reads from the folder of the pins of a fast path of a kind which addresses the words in its
// tables are.
func ReadNumbers(pins, kind string) (addr func(word uint32) netip.Addr, err error) {
	if kind != Routed6 && kind != VXLAN6 {
		return func(word uint32) netip.Addr {
			addr, _ := plain{}.addr(word)
			return addr
		}, nil
	}
	table, err := ebpf.LoadPinnedMap(TableFile(pins, addressesTable), &ebpf.LoadPinOptions{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer table.Close()
	all := map[uint32]netip.Addr{}
	err = eachAddr(table, func(number uint32, addr addr6) { all[number] = netip.AddrFrom16(addr) })
	return func(word uint32) netip.Addr { return all[word] }, err
}
