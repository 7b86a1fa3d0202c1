package lab

import (
	"path/filepath"

	"github.com/venturi-net/venturi/internal/netcfg"
)

// Open opens the namespace of the i-th machine, for processes that are to live
// there. They end with the lab at the latest.
func (l *Lab) Open(i int) (*netcfg.Namespace, error) {
	return l.writer.Open(filepath.Base(l.Machines[i].Namespace))
}
