package bpf

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
)

// MapArrays has all arrays loaded such that tests can map them into memory.
func MapArrays() {
	for kind, of := range sources {
		of.carry, of.shadow = withMappable(of.carry), withMappable(of.shadow)
		sources[kind] = of
	}
}

func withMappable(load func() (*ebpf.CollectionSpec, error)) func() (*ebpf.CollectionSpec, error) {
	return func() (*ebpf.CollectionSpec, error) {
		spec, err := load()
		if err != nil {
			return nil, err
		}
		for name, m := range spec.Maps {
			if m.Type == ebpf.Array && !strings.HasPrefix(name, ".") { // globals are loaded by what the library says of them
				m.Flags |= mmapable
			}
		}
		return spec, nil
	}
}

// Slot is where cores keep a copy of a flow; src/slots.h computes the same.
func Slot(k FlowKey) uint64 { return hashKey(k) >> 53 }

// ReadGlobal reads the bytes of a variable, by its name.
var ReadGlobal = readGlobal

// Group is the group of a flow, whose slots end together.
func Group(k FlowKey) uint64 { return groupOf(k) }

// WithSecrets loads programs with these random numbers.
func WithSecrets(next func() uint64, load func() (*Objects, error)) (*Objects, error) {
	defer func(before func() uint64) { random = before }(random)
	random = next
	return load()
}

// SetLastNumber sets the last number that a program has given to an address of IPv6.
func (o *Objects) SetLastNumber(last uint32) error {
	spec, err := loadRouted6()
	if err != nil {
		return err
	}
	memory, err := o.Data.Memory()
	if err == nil {
		_, err = memory.WriteAt(binary.NativeEndian.AppendUint32(nil, last), int64(spec.Variables["last_number"].Offset))
	}
	return err
}

// Renumber gives an address of IPv6 another number, as if the one that it has were taken back and given
// anew meanwhile.
func (o *Objects) Renumber(addr netip.Addr, number uint32) error {
	n := o.addrs.(*numbers)
	return errors.Join(n.byAddr.Put(addr6(addr.As16()), number), n.byNum.Put(number, addr6(addr.As16())))
}

// Misname has the table of numbers name an address by the number of another one, as a core reads it that has found an
// entry which becomes the other one's before its number is read.
func (o *Objects) Misname(addr netip.Addr, number uint32) error {
	return o.addrs.(*numbers).byAddr.Put(addr6(addr.As16()), number)
}

// Proof is what SeenOut or SeenIn of the entry with a key is, if the network has forwarded its flow that way in an
// epoch, between its pod and its peer. proof_of of src/slots.h computes the same.
func (o *Objects) Proof(k FlowKey, v Flow, epoch uint32) uint32 {
	return max(1, epoch^o.digest(k, v))
}

func (o *Objects) digest(k FlowKey, v Flow) uint32 {
	wire := k
	if v.Translated != 0 {
		wire = v.OtherKey(k)
	}
	own, ownEnds := wordsOf(k)
	other, otherEnds := wordsOf(wire)
	hash := uint64(0)
	for i, word := range []uint64{own, ownEnds, other, otherEnds, uint64(v.Peer)<<32 | uint64(v.PeerEpoch), uint64(v.PodEpoch)} {
		key := o.secret[1+i]
		hash += uint64(uint32(word)+uint32(key)) * uint64(uint32(word>>32)+uint32(key>>32))
	}
	return uint32(hash * (o.secret[0] | 1) >> 32)
}

// PutFlow writes an entry whose SeenOut and SeenIn are the epochs in which the network has forwarded it between its pod
// and its peer.
func (o *Objects) PutFlow(k FlowKey, v Flow) error {
	for _, seen := range []*uint32{&v.SeenOut, &v.SeenIn} {
		if *seen != 0 {
			*seen = o.Proof(k, v, *seen)
		}
	}
	return o.Flows.Put(k, v)
}

// LookupFlow reads an entry as PutFlow writes it. If it was between others, the epoch is one that there never is.
func (o *Objects) LookupFlow(k FlowKey, v *Flow) error {
	err := o.Flows.Lookup(k, v)
	for _, seen := range []*uint32{&v.SeenOut, &v.SeenIn} {
		if *seen != 0 {
			*seen ^= o.digest(k, *v)
		}
	}
	return err
}

// OnVersion has a function called whenever slots end because numbers are taken back.
func (o *Objects) OnVersion(call func()) {
	n := o.addrs.(*numbers)
	end := n.version
	n.version = func() error { call(); return end() }
}

// NewSmall loads the fast path of a kind, some of whose tables have room for so many entries.
func NewSmall(kind string, port uint16, entries uint32, tables ...string) (*Objects, error) {
	spec, err := source(kind, false)
	if err != nil {
		return nil, err
	}
	if err := setTunnel(spec, kind, port); err != nil {
		return nil, err
	}
	for _, name := range tables {
		spec.Maps[name].MaxEntries = entries
	}
	return load(spec, Options{})
}

// NewStamping loads a fast path whose programs that carry give the stamp that a packet
// has behind them, in place of their verdict: the kernel's test does not tell it.
func NewStamping(kind string, port uint16) (*Objects, error) {
	spec, err := source(kind, false)
	if err != nil {
		return nil, err
	}
	if err := setTunnel(spec, kind, port); err != nil {
		return nil, err
	}
	for _, name := range []string{"from_pod", "from_wire"} {
		p := spec.Programs[name]
		p.Instructions = append(stampOf(name, &p.Instructions[0]), p.Instructions...)
	}
	return load(spec, Options{})
}

// Spec is what the programs of a kind are compiled to.
func Spec(kind string, shadow bool) (*ebpf.CollectionSpec, error) { return source(kind, shadow) }

// stampOf calls a program, and gives the packet's stamp. The kernel wants to know as
// much of it as of what it calls, which begins with an instruction.
func stampOf(name string, begins *asm.Instruction) asm.Instructions {
	const tcIndex = 44 // offset in struct __sk_buff
	as := &btf.Func{Name: "stamp_of", Type: btf.FuncMetadata(begins).Type, Linkage: btf.GlobalFunc}
	return asm.Instructions{
		btf.WithFuncMetadata(asm.Mov.Reg(asm.R6, asm.R1), as).WithSymbol("stamp_of").WithSource(begins.Source()),
		asm.Call.Label(name),
		asm.LoadMem(asm.R0, asm.R6, tcIndex, asm.Word),
		asm.Return(),
	}
}

// TakeBack takes the number of an address back, or has begun to, and ends all slots.
func (o *Objects) TakeBack(addr netip.Addr, halfway bool) error {
	n := o.addrs.(*numbers)
	number, _, err := n.find(addr)
	if err == nil {
		err = errors.Join(n.byAddr.Delete(addr6(addr.As16())), n.version())
	}
	if err == nil && !halfway {
		delete(n.cache, number)
		err = n.byNum.Delete(number)
	}
	return err
}
