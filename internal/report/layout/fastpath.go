package layout

import (
	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/report/view"
)

// fastBlocks shows what became of packets, wire by wire.
func (all sources) fastBlocks(v *view.Content) {
	some := false
	for _, s := range all {
		if b, ok := view.FastBlock(s.sums[s.host]); ok {
			b.Name, some = s.labelWire(b.Name), true
			v.Blocks = append(v.Blocks, b)
		}
	}
	if !some {
		v.Remarks = append(v.Remarks, view.NoFastPath)
	}
}

// fastDocument is what became of the packets of one path in one load, for programs.
type fastDocument struct {
	Wire     string             `json:"wire,omitempty"`
	Path     string             `json:"path"`
	Load     string             `json:"load"`
	Size     int                `json:"size"`  // bytes
	Flows    int                `json:"flows"` // of the load
	FastPath *analysis.FastPath `json:"fast_path"`
}

// fastDocuments lists all that there are.
func (all sources) fastDocuments() (out []fastDocument) {
	for _, s := range all {
		for _, c := range s.sums[s.host].Cells {
			for _, r := range c.Rows {
				if r.FastPath != nil {
					out = append(out, fastDocument{s.wire, r.Arm.Name, c.Cell.Load, c.Cell.Size, c.Cell.Flows, r.FastPath})
				}
			}
		}
	}
	return out
}
