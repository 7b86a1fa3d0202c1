package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/venturi-net/venturi/internal/verr"
)

// What a command that is held says when it has made its changes, and what it is told when
// they stay. At the end of its standard input, or of its lease, it undoes them.
const (
	ReadyLine = "held\n"
	KeepLine  = "keep\n"
)

// Commit runs a command that is held, and so changes settings on all machines or on none of
// them: only when all have made their changes are they told to keep them. Each machine
// undoes its own by itself where this process, or the line to it, is gone.
//
// One case is left, as in every such protocol: a machine that is lost in the instant in which
// it is told. The error names it.
func (f *Fleet) Commit(ctx context.Context, args []string) []Reply {
	work, interrupt := context.WithCancel(context.WithoutCancel(ctx))
	defer interrupt()
	uninterrupted := context.AfterFunc(ctx, interrupt)
	held := make([]*heldCommand, len(f.machines))
	for i := range held {
		held[i] = f.hold(work, i, args)
	}
	all := true
	for _, h := range held {
		all = h.awaitReady() && all
	}
	if all && uninterrupted() { // from here on it is decided
		for _, h := range held {
			_, _ = io.WriteString(h.stdin, KeepLine) // an error: it has ended, and its reply says how
		}
	}
	var replies []Reply
	for _, h := range held {
		_ = h.stdin.Close()
	}
	for _, h := range held {
		replies = append(replies, h.reply())
	}
	if all {
		f.withdraw(ctx, replies)
	}
	return replies
}

// withdraw undoes what machines keep where another one has failed to.
func (f *Fleet) withdraw(ctx context.Context, replies []Reply) {
	failed := false
	for _, r := range replies {
		failed = failed || r.Err != nil
	}
	if !failed {
		return
	}
	for i, r := range replies {
		var done struct {
			Transactions []struct {
				ID int `json:"id"`
			} `json:"transactions"`
		}
		if r.Err != nil || json.Unmarshal(r.Stdout, &done) != nil {
			continue
		}
		for _, t := range done.Transactions {
			undone := f.runOne(context.WithoutCancel(ctx), i, []string{"undo", strconv.Itoa(t.ID)}, nil, io.Discard)
			replies[i].Err = undone.Err
		}
		if len(done.Transactions) > 0 && replies[i].Err == nil {
			replies[i].Err = &commandError{verr.New(verr.Failed, "cannot keep the changes", "another machine did not keep its own", "nothing is left changed here")}
		}
	}
}

// heldCommand is a command that waits for the word on its changes.
type heldCommand struct {
	stdin  *io.PipeWriter
	out    heldOutput
	ended  chan struct{}
	result Reply
}

// hold starts a command on one machine.
func (f *Fleet) hold(ctx context.Context, i int, args []string) *heldCommand {
	in, stdin := io.Pipe()
	h := &heldCommand{stdin: stdin, out: heldOutput{ready: make(chan struct{})}, ended: make(chan struct{})}
	go func() {
		defer close(h.ended)
		h.result = f.runOne(ctx, i, args, in, &h.out)
		_ = in.Close()
	}()
	return h
}

// awaitReady waits until the changes are made, or there are none to make. False: that went wrong.
func (h *heldCommand) awaitReady() bool {
	select {
	case <-h.out.ready:
		return true
	case <-h.ended:
		return h.result.Err == nil
	}
}

// reply waits for the end of the command.
func (h *heldCommand) reply() Reply {
	<-h.ended
	h.result.Stdout = []byte(strings.TrimPrefix(h.out.text.String(), ReadyLine))
	return h.result
}

// heldOutput is the output of a command, and knows when it is held.
type heldOutput struct {
	readyOnce sync.Once
	ready     chan struct{}
	text      bytes.Buffer
}

func (o *heldOutput) Write(b []byte) (int, error) {
	n, err := o.text.Write(b)
	if bytes.HasPrefix(o.text.Bytes(), []byte(ReadyLine)) {
		o.readyOnce.Do(func() { close(o.ready) })
	}
	return n, err
}
