package bpf_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
	"github.com/gopacket/gopacket/layers"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath/bpf"
	"github.com/venturi-net/venturi/internal/testenv"
)

// objectPool keeps fast paths from test to test, by what they were loaded as: kernels take a fifth of a
// second to verify one, and seconds where they are emulated.
type objectPool map[string][]*pooledObjects

var pool = objectPool{}

// pooledObjects are the programs of a fast path, with all of their tables.
type pooledObjects struct {
	*bpf.Objects
	tables  map[ebpf.MapID]*ebpf.Map
	globals map[ebpf.MapID][]byte // what is in a table of globals at first
}

// get gives a fast path to a test, with tables as they are when it is loaded.
func (p objectPool) get(t testing.TB, name string, load func() (*bpf.Objects, error)) *bpf.Objects {
	t.Helper()
	var o *pooledObjects
	if free := p[name]; len(free) > 0 {
		o, p[name] = free[len(free)-1], free[:len(free)-1]
	} else {
		objs, err := load()
		if err != nil {
			t.Fatalf("load: %+v", err)
		}
		o, err = newPooledObjects(objs)
		check(t, err)
	}
	t.Cleanup(func() {
		if err := o.reset(); err != nil {
			o.close()
			t.Errorf("empty the tables of %s: %v", name, err)
			return
		}
		p[name] = append(p[name], o)
	})
	return o.Objects
}

// close closes all that no test has.
func (p objectPool) close() {
	for _, free := range p {
		for _, o := range free {
			o.close()
		}
	}
	clear(p)
}

func newPooledObjects(objs *bpf.Objects) (*pooledObjects, error) {
	o := &pooledObjects{Objects: objs, tables: map[ebpf.MapID]*ebpf.Map{}, globals: map[ebpf.MapID][]byte{}}
	for _, p := range []*ebpf.Program{objs.FromPod, objs.ToPod, objs.FromWire, objs.ToPeer, objs.ToTunnel, objs.FromTunnel, objs.Clock} {
		info, err := p.Info()
		if err == nil {
			ids, _ := info.MapIDs()
			err = o.open(ids)
		}
		if err != nil {
			o.close()
			return nil, fmt.Errorf("open the tables of a program: %w", err)
		}
	}
	info, err := objs.Data.Info()
	if err == nil {
		id, _ := info.ID()
		o.globals[id], err = objs.Data.LookupBytes(uint32(0))
	}
	if err != nil {
		o.close()
		return nil, fmt.Errorf("read the globals: %w", err)
	}
	return o, nil
}

// open opens tables.
func (o *pooledObjects) open(ids []ebpf.MapID) (err error) {
	for _, id := range ids {
		if o.tables[id] == nil {
			if o.tables[id], err = ebpf.NewMapFromID(id); err != nil {
				return err
			}
		}
	}
	return nil
}

func (o *pooledObjects) close() {
	for _, m := range o.tables {
		m.Close()
	}
	o.Objects.Close()
}

// reset makes all tables what they were when they were made.
func (o *pooledObjects) reset() error {
	for id, m := range o.tables {
		info, err := m.Info()
		if err != nil {
			return err
		}
		switch globals := o.globals[id]; {
		case info.Frozen(): // constants
		case globals != nil:
			err = m.Put(uint32(0), globals)
		default:
			err = empty(m)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", info.Name, err)
		}
	}
	return nil
}

// empty removes what is in a table, or makes it zero.
func empty(m *ebpf.Map) error {
	n := int(m.MaxEntries())
	switch m.Type() {
	case ebpf.Hash:
		return deleteAll(m)
	case ebpf.Array: // to write one entry after the other takes a hundred times as long
		each := (int(m.ValueSize()) + 7) &^ 7
		memory, err := unix.Mmap(m.FD(), 0, n*each, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return fmt.Errorf("map %d entries: %w", n, err)
		}
		clear(memory)
		return unix.Munmap(memory)
	case ebpf.PerCPUArray:
		cores, err := ebpf.PossibleCPU()
		if err != nil {
			return err
		}
		zero := make([][]byte, cores)
		for i := range zero {
			zero[i] = make([]byte, m.ValueSize())
		}
		for key := range n {
			err = errors.Join(err, m.Put(uint32(key), zero))
		}
		return err
	case ebpf.RingBuf:
		return drain(m)
	case ebpf.PerfEventArray: // it ends with its reader
		return nil
	}
	return fmt.Errorf("no test can empty a table of type %v", m.Type())
}

func deleteAll(m *ebpf.Map) error {
	var keys [][]byte
	var key, value []byte
	all := m.Iterate()
	for all.Next(&key, &value) {
		keys = append(keys, key)
	}
	err := all.Err()
	for _, key := range keys {
		err = errors.Join(err, m.Delete(key))
	}
	return err
}

func drain(m *ebpf.Map) error {
	r, err := ringbuf.NewReader(m)
	if err != nil {
		return err
	}
	r.SetDeadline(time.Now())
	for err == nil {
		_, err = r.Read()
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = nil
	}
	return errors.Join(err, r.Close())
}

// contents is all in tables that can be read and is not zero.
func (o *pooledObjects) contents(t *testing.T) (lines []string) {
	t.Helper()
	for _, m := range o.tables {
		if m.Type() == ebpf.RingBuf || m.Type() == ebpf.PerfEventArray {
			continue
		}
		info, err := m.Info()
		check(t, err)
		var key, value []byte
		var values [][]byte // of the cores
		var into any = &value
		if m.Type() == ebpf.PerCPUArray {
			into = &values
		}
		all := m.Iterate()
		for all.Next(&key, into) {
			text := bytes.Join(append(values, value), nil)
			if m.Type() == ebpf.Hash || len(bytes.Trim(text, "\x00")) > 0 {
				lines = append(lines, fmt.Sprintf("%s %x: %x", info.Name, key, text))
			}
			value, values = nil, nil
		}
		check(t, all.Err())
	}
	slices.Sort(lines)
	return lines
}

// What a test left in a fast path is not there for the next one.
func TestPoolIsAsNew(t *testing.T) {
	testenv.Root(t)
	for _, kind := range kinds {
		others := pool[kind]
		pool[kind] = nil
		t.Run(kind, func(t *testing.T) { newRig(t, kind, layers.IPProtocolTCP) })
		one := pool[kind][0]
		was := one.contents(t)
		t.Run(kind+", with traffic", func(t *testing.T) {
			l := newLearning(t, kind, layers.IPProtocolTCP)
			l.hasEntry = true
			l.write(t)
			l.arrive(t, kind)
			l.run(t, l.objs.FromPod, l.pod, l.podPacket().bytes(t))
			if l.objs != one.Objects || len(l.counted(t)) == 0 || l.entry(t) == nil {
				t.Errorf("the traffic leaves nothing in the tables: counted %v", l.counted(t))
			}
		})
		if is := one.contents(t); !slices.Equal(is, was) {
			t.Errorf("%s: the tables have changed:\n%s", kind, testenv.Difference(strings.Join(was, "\n"), strings.Join(is, "\n")))
		}
		pool[kind] = append(pool[kind], others...)
	}
}
