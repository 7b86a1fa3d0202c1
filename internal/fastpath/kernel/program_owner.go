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

// flowTable is the table that all programs of a fast path use.
const flowTable = "flows"

// IsFastPath tells whether the program with an ID is one of a fast path, of whatever version: it
// uses a table of flows. A name says nothing, because anybody can give it to a program or a filter.
// It takes the privilege to open programs by their IDs.
func IsFastPath(id ebpf.ProgramID) (bool, error) {
	programs.mu.Lock()
	defer programs.mu.Unlock()
	if own, known := programs.fastPath[id]; known {
		return own, nil
	}
	own, err := usesFlowTable(id)
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

func usesFlowTable(id ebpf.ProgramID) (bool, error) {
	p, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return false, err
	}
	defer p.Close()
	info, err := p.Info()
	if err != nil {
		return false, err
	}
	tables, _ := info.MapIDs() // kernels with filters that have IDs know them
	for _, table := range tables {
		if is, err := isFlowTable(table); is || err != nil {
			return is, err
		}
	}
	return false, nil
}

func isFlowTable(id ebpf.MapID) (bool, error) {
	m, err := ebpf.NewMapFromID(id)
	if err != nil {
		return false, err
	}
	defer m.Close()
	info, err := m.Info()
	return err == nil && info.Type == ebpf.Hash && info.Name == flowTable, err
}
