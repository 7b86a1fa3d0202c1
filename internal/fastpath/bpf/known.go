package bpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/cilium/ebpf"
)

// slotsPerCore is SLOTS of src/known.h.
const slotsPerCore = 2048

// sizeSlots gives each core that there can be its slots.
func sizeSlots(spec *ebpf.CollectionSpec) error {
	cores, err := ebpf.PossibleCPU()
	if err != nil {
		return fmt.Errorf("count cores: %w", err)
	}
	spec.Maps["slots"].MaxEntries = uint32(cores * slotsPerCore)
	return nil
}

// numbers is held by who reads a number that programs compare, to raise it.
var numbers sync.Mutex

// PutPod writes what is known of a pod, by the index of its device, and ends what
// cores have copied of it.
func (f *Fast) PutPod(device uint32, p Pod) error {
	return errors.Join(f.Pods.Put(device, p), f.changed())
}

// PutPodAt says by which device a pod is reached that has an address.
func (f *Fast) PutPodAt(key PodKey, device uint32) error {
	bit := key.Addr * 0x9e3779b1 >> (32 - homeBits)
	var word [4]byte
	at := f.home + int64(bit/32*4)
	memory, err := f.Data.Memory()
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
	return f.PodAt.Put(key, device)
}

// homeBits is HOME_BITS of src/state.h.
const homeBits = 15

// PutPeer writes what is known of a peer, and ends what cores have copied of it.
func (f *Fast) PutPeer(number uint32, p Peer) error {
	return errors.Join(f.Peers.Put(number, p), f.changed())
}

func (f *Fast) changed() error {
	numbers.Lock()
	defer numbers.Unlock()
	var version uint32
	if err := f.Version.Get(&version); err != nil {
		return err
	}
	return f.Version.Set(version + 1)
}

// Ended says that entries of flows were deleted: cores have copies of them, which
// hold for a second at most otherwise. It is called when the entries are gone.
func (f *Fast) Ended(keys ...FlowKey) error {
	numbers.Lock()
	defer numbers.Unlock()
	memory, err := f.Data.Memory()
	var number [4]byte
	for _, k := range keys {
		at := f.endings + int64(8*group(k)+4) // the daemon's half
		if err == nil {
			_, err = memory.ReadAt(number[:], at)
		}
		if err == nil {
			binary.NativeEndian.PutUint32(number[:], binary.NativeEndian.Uint32(number[:])+1)
			_, err = memory.WriteAt(number[:], at)
		}
	}
	if err != nil {
		return fmt.Errorf("end copies of flows: %w", err)
	}
	return nil
}

// group and mix are those of src/known.h.
func group(k FlowKey) uint64 { return mix(k) >> 40 & (groups - 1) }

func mix(k FlowKey) uint64 {
	a := uint64(k.TenantProto&0xff) | uint64(k.Local)<<32
	b := uint64(k.Remote) | uint64(k.LocalPort)<<32 | uint64(k.RemotePort)<<48
	return a*0x9e3779b97f4a7c15 + b*0xc2b2ae3d27d4eb4f
}

// groups is GROUPS of src/known.h.
const groups = 256
