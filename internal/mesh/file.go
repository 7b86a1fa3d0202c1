package mesh

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/verr"
)

// CreateFile creates the file that a report is kept in, before anything is measured for it. Errors
// are for people.
func CreateFile(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	return f, verr.Wrap(verr.Failed, "cannot keep the result in "+name, err, "name a file that can be written with --out")
}

// Save keeps the report in a file.
func (r *Survey) Save(f *os.File) error {
	err := errors.Join(sanitize.JSON(f, r), f.Close())
	return verr.Wrap(verr.Failed, "cannot keep the result in "+f.Name(), err, "check that the disk is not full")
}

// Read reads a report that was kept. Errors are for people.
func Read(name string) (*Survey, error) {
	const do = "name a file that --out or --json has written"
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, verr.Wrap(verr.Usage, "cannot read "+name, err, do)
	}
	r := &Survey{}
	if err = json.Unmarshal(text, r); err == nil {
		err = r.check()
	}
	return r, verr.Wrap(verr.BadRecord, "cannot read "+name, err, do)
}

// check refuses a report whose parts do not fit together.
func (r *Survey) check() error {
	if r.Version != ReportVersion {
		return fmt.Errorf("its version is %d, not %d", r.Version, ReportVersion)
	}
	known := func(node int) bool { return node >= 0 && node < len(r.Nodes) }
	for _, l := range r.Loads {
		for _, n := range l.Nodes {
			if !known(n.Node) {
				return fmt.Errorf("it has %d nodes, and names number %d", len(r.Nodes), n.Node)
			}
		}
		for _, p := range l.Pairs {
			if !known(p.From) || !known(p.To) {
				return fmt.Errorf("it has %d nodes, and names the pair %d, %d", len(r.Nodes), p.From, p.To)
			}
		}
		if l.Median != nil && len(l.Pairs) == 0 {
			return errors.New("it has a median of no pairs")
		}
	}
	return nil
}
