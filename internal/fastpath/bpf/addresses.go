package bpf

import (
	"encoding/binary"
	"iter"
	"net/netip"
)

// addressing is how the tables have addresses: each is a word.
type addressing interface {
	give(pod netip.Addr) (uint32, error)
	find(addr netip.Addr) (word uint32, ok bool, err error)
	addr(word uint32) (netip.Addr, bool)
	short(word uint32) uint32 // what maybe_local_pod of src/state.h is asked with
}

// plain is the addressing of IPv4: the words are the addresses.
type plain struct{}

func (plain) give(pod netip.Addr) (uint32, error) { return word(pod), nil }

func (plain) find(addr netip.Addr) (uint32, bool, error) { return word(addr), addr.Is4(), nil }

func (plain) addr(word uint32) (netip.Addr, bool) {
	return netip.AddrFrom4([4]byte(binary.NativeEndian.AppendUint32(nil, word))), true
}

func (plain) short(word uint32) uint32 { return word }

// addressing is that of the programs: unless they say otherwise, that of IPv4.
func (o *Objects) addressing() addressing {
	if o.addrs == nil {
		return plain{}
	}
	return o.addrs
}

// AddrWord is the address of a pod as the tables have it. One of IPv6 gets a number if it has none.
func (o *Objects) AddrWord(pod netip.Addr) (uint32, error) { return o.addressing().give(pod) }

// KeepPods says which addresses pods have, as the tables have them. Those of IPv4 are not read.
func (o *Objects) KeepPods(words iter.Seq[uint32]) {
	if n, numbered := o.addrs.(*numbers); numbered {
		n.keep(words)
	}
}

// HasNumbers tells whether addresses have numbers in the tables: those of IPv6.
func (o *Objects) HasNumbers() bool {
	_, numbered := o.addrs.(*numbers)
	return numbered
}

// ForgetAddrs takes back the numbers of addresses of IPv6 that no pod has, and no flow: those of flows are used, of
// all that there were. Those that were not used when this was called last are taken back, the others next time.
func (o *Objects) ForgetAddrs(used map[uint32]bool) error {
	n, numbered := o.addrs.(*numbers)
	if !numbered {
		return nil
	}
	return n.forget(used)
}

// Key is the key of a flow; the tenant is its VNI, or 0. false: there is no such flow.
func (o *Objects) Key(tenant uint32, protocol uint8, local, remote netip.AddrPort) (k FlowKey, ok bool, err error) {
	from, ok, err := o.addressing().find(local.Addr())
	if !ok || err != nil {
		return k, false, err
	}
	to, ok, err := o.addressing().find(remote.Addr())
	k = NewFlowKey(tenant, protocol, local, remote)
	k.Local, k.Remote = from, to
	return k, ok, err
}

// Ends are those of a flow with a key. false: nobody knows them any more.
func (o *Objects) Ends(k FlowKey) (local, remote netip.AddrPort, ok bool) {
	from, ok := o.addressing().addr(k.Local)
	to, also := o.addressing().addr(k.Remote)
	return netip.AddrPortFrom(from, swap(k.LocalPort)), netip.AddrPortFrom(to, swap(k.RemotePort)), ok && also
}
