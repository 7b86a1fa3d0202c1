package lab

import (
	"path/filepath"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/netcfg"
)

// Open opens the namespace of the i-th machine, for processes that are to live
// there. They end with the lab at the latest.
func (l *Lab) Open(i int) (*netcfg.Namespace, error) {
	return l.writer.Open(filepath.Base(l.Machines[i].Namespace))
}

// OpenEnd opens the namespace that an end of a path is in.
func (l *Lab) OpenEnd(e host.Endpoint) (*netcfg.Namespace, error) {
	return l.writer.Open(filepath.Base(e.Namespace))
}

// Create makes one more namespace, such as a pod that no path has. It goes with the lab.
func (l *Lab) Create(name string) (*netcfg.Namespace, error) {
	n, err := l.writer.Create(l.writer.Name(name))
	if err != nil {
		return nil, err
	}
	if err := n.Sysctl(baseSettings...); err != nil {
		n.Close()
		return nil, err
	}
	return n, nil
}

// Folder is where the lab's files are. They go with it.
func (l *Lab) Folder() string { return folder(l.Name) }
