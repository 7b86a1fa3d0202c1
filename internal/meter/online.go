package meter

import (
	"bytes"
	"fmt"
)

// onlineCores knows which cores were on when a meter was opened. The kernel keeps the times of one that has
// gone, so nothing else tells that they stand still.
type onlineCores struct {
	f    *file
	text []byte // as the kernel lists them: 0-3
}

func openOnline(root string) (*onlineCores, error) {
	f, err := openFile(root, "sys/devices/system/cpu/online")
	if err != nil {
		return nil, err
	}
	b, err := f.read()
	if err != nil {
		f.close()
		return nil, err
	}
	return &onlineCores{f, bytes.Clone(b)}, nil
}

// check fails when others are on than at first.
func (o *onlineCores) check() error {
	b, err := o.f.read()
	if err != nil {
		return err
	}
	if !bytes.Equal(b, o.text) {
		return fmt.Errorf("the cores that are on were %s, and are %s", bytes.TrimSpace(o.text), bytes.TrimSpace(b))
	}
	return nil
}

func (o *onlineCores) close() error { return o.f.close() }
