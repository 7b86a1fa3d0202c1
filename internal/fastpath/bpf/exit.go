package bpf

import (
	"errors"
	"fmt"
	"io"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// EndWithProcess has the kernel end the deadline when the calling process ends, however
// that happens, until it is closed: programs go slow at once then, and not when the
// deadline is over. A kernel may have no such program.
func (f *Fast) EndWithProcess() (io.Closer, error) {
	l, err := f.endWithProcess()
	if err != nil {
		return nil, fmt.Errorf("follow the end of this process: %w", err)
	}
	return l, nil
}

func (f *Fast) endWithProcess() (l link.Link, err error) {
	spec, err := loadExit()
	if err != nil {
		return nil, err
	}
	const shared = "shared"
	m := spec.Maps[shared]
	m.ValueSize, m.Flags = f.Data.ValueSize(), f.Data.Flags()
	if err := spec.Variables["deadline_at"].Set(f.deadline); err != nil {
		return nil, err
	}
	c, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: map[string]*ebpf.Map{shared: f.Data}})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	ended := c.Programs["ended"]
	if _, err := ended.Run(&ebpf.RunOptions{}); err != nil {
		return nil, err
	}
	var process uint32
	if err := c.Variables["daemon"].Get(&process); err != nil || process == 0 {
		return nil, errors.Join(err, errors.New("the kernel gives this process no number"))
	}
	return link.AttachRawTracepoint(link.RawTracepointOptions{Name: "sched_process_exit", Program: ended})
}
