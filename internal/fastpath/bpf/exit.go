package bpf

import (
	"errors"
	"fmt"
	"io"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// RevokeOnExit makes the kernel revoke the lease when the calling process exits, for whatever
// reason. Without it, programs go on until the deadline. Not every kernel supports it. It is to be
// the last that is loaded.
func (o *Objects) RevokeOnExit() (io.Closer, error) {
	l, err := o.revokeOnExit()
	o.types = nil
	if err != nil {
		return nil, fmt.Errorf("follow the exit of this process: %w", err)
	}
	return l, nil
}

func (o *Objects) revokeOnExit() (l link.Link, err error) {
	spec, err := loadExit()
	if err != nil {
		return nil, err
	}
	const shared = "shared"
	m := spec.Maps[shared]
	m.ValueSize, m.Flags = o.Data.ValueSize(), o.Data.Flags()
	if err := spec.Variables["deadline_at"].Set(o.deadlineAt); err != nil {
		return nil, err
	}
	c, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: map[string]*ebpf.Map{shared: o.Data}, Cache: o.types()})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	onExit := c.Programs["on_exit"]
	if _, err := onExit.Run(&ebpf.RunOptions{}); err != nil {
		return nil, err
	}
	var process uint32
	if err := c.Variables["daemon"].Get(&process); err != nil || process == 0 {
		return nil, errors.Join(err, errors.New("the kernel gives this process no number"))
	}
	return link.AttachRawTracepoint(link.RawTracepointOptions{Name: "sched_process_exit", Program: onExit})
}
