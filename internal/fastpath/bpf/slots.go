package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/cilium/ebpf"
)

// slotsPerCore is SLOTS of src/slots.h.
const slotsPerCore = 2048

// sizeSlots sizes the tables of slots for all possible cores.
func sizeSlots(spec *ebpf.CollectionSpec) error {
	cores, err := ebpf.PossibleCPU()
	if err != nil {
		return fmt.Errorf("count cores: %w", err)
	}
	for _, name := range []string{"slots", "translations", slotNamesTable} {
		if m := spec.Maps[name]; m != nil {
			m.MaxEntries = uint32(cores * slotsPerCore)
		}
	}
	return nil
}

// countersMu guards read-modify-write of the versions that programs compare.
var countersMu sync.Mutex

// PutPod writes the entry of a pod, by the ifindex of its device, and invalidates the slots
// of all cores.
func (o *Objects) PutPod(device uint32, p Pod) error {
	return errors.Join(o.Pods.Put(device, p), o.bumpVersion())
}

// PutPodAt maps the address of a pod to its device.
func (o *Objects) PutPodAt(key PodKey, device uint32) error {
	bit := o.addressing().short(key.Addr) * 0x9e3779b1 >> (32 - localPodBits)
	var word [4]byte
	at := o.localPodsAt + int64(bit/32*4)
	memory, err := o.Data.Memory()
	if err == nil {
		_, err = memory.ReadAt(word[:], at)
	}
	if err == nil {
		binary.NativeEndian.PutUint32(word[:], binary.NativeEndian.Uint32(word[:])|1<<(bit%32))
		_, err = memory.WriteAt(word[:], at)
	}
	if err != nil {
		return fmt.Errorf("note the address of a pod: %w", err)
	}
	return o.PodAt.Put(key, device)
}

// localPodBits is HOME_BITS of src/state.h.
const localPodBits = 15

// PutPeer writes the entry of a peer, and invalidates the slots of all cores.
func (o *Objects) PutPeer(number uint32, p Peer) error {
	return errors.Join(o.Peers.Put(number, p), o.bumpVersion())
}

func (o *Objects) bumpVersion() error {
	countersMu.Lock()
	defer countersMu.Unlock()
	var version uint32
	if err := o.Version.Get(&version); err != nil {
		return err
	}
	return o.Version.Set(version + 1)
}

// InvalidateSlots invalidates the slots of flows whose entries were deleted. It is called
// after that. Without it a slot stays valid for up to a second.
func (o *Objects) InvalidateSlots(keys ...FlowKey) error {
	countersMu.Lock()
	defer countersMu.Unlock()
	memory, err := o.Data.Memory()
	var number [4]byte
	for _, k := range keys {
		at := o.groupsAt + int64(8*groupOf(k)+4) // the daemon's half
		if err == nil {
			_, err = memory.ReadAt(number[:], at)
		}
		if err == nil {
			binary.NativeEndian.PutUint32(number[:], binary.NativeEndian.Uint32(number[:])+1)
			_, err = memory.WriteAt(number[:], at)
		}
	}
	if err != nil {
		return fmt.Errorf("invalidate slots of flows: %w", err)
	}
	return nil
}

// groupOf and hashKey are group_of and hash_key of src/slots.h.
func groupOf(k FlowKey) uint64 { return hashKey(k) >> 40 & (groups - 1) }

func hashKey(k FlowKey) uint64 {
	a, b := wordsOf(k)
	return a*0x9e3779b97f4a7c15 + b*0xc2b2ae3d27d4eb4f
}

// wordsOf are the two words of a key that hashes are of: without the tenant, and without the side that sees it.
func wordsOf(k FlowKey) (a, b uint64) {
	a = uint64(k.TenantProto&0xff&^wireView) | uint64(k.Local)<<32
	return a, uint64(k.Remote) | uint64(k.LocalPort)<<32 | uint64(k.RemotePort)<<48
}

// groups is GROUPS of src/slots.h.
const groups = 256
