package kernel

import (
	"errors"
	"io/fs"
	"sync"

	"github.com/cilium/ebpf"
)

// programCache is what is known of programs. The kernel gives no ID again.
type programCache struct {
	mu       sync.Mutex
	fastPath map[ebpf.ProgramID]bool
}

// maxPrograms limits it.
const maxPrograms = 1 << 12

var programs = programCache{fastPath: map[ebpf.ProgramID]bool{}}

// FastPathTables are tables that every attached program of a fast path uses. One of them says little:
// programs of others have a table of flows as well.
var FastPathTables = map[string]ebpf.MapType{"flows": ebpf.Hash, "pods": ebpf.Array}

// IsFastPath tells whether the program with an ID is one of a fast path, of whatever version: it uses
// all [FastPathTables]. Its own name says nothing, because anybody can give it to a program or a filter.
// It takes the privilege to open programs by their IDs.
func IsFastPath(id ebpf.ProgramID) (bool, error) {
	programs.mu.Lock()
	defer programs.mu.Unlock()
	if own, known := programs.fastPath[id]; known {
		return own, nil
	}
	own, err := usesTables(id)
	if errors.Is(err, fs.ErrNotExist) { // it was unloaded meanwhile
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if len(programs.fastPath) >= maxPrograms {
		clear(programs.fastPath)
	}
	programs.fastPath[id] = own
	return own, nil
}

func usesTables(id ebpf.ProgramID) (bool, error) {
	p, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return false, err
	}
	defer p.Close()
	info, err := p.Info()
	if err != nil {
		return false, err
	}
	found := map[string]bool{}
	tables, _ := info.MapIDs() // kernels with filters that have IDs know them
	for _, table := range tables {
		info, err := tableInfo(table)
		if err != nil {
			return false, err
		}
		if want, known := FastPathTables[info.Name]; known && info.Type == want {
			found[info.Name] = true
		}
	}
	return len(found) == len(FastPathTables), nil
}

func tableInfo(id ebpf.MapID) (*ebpf.MapInfo, error) {
	m, err := ebpf.NewMapFromID(id)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	return m.Info()
}
