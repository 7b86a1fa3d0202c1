package fleet

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/venturi-net/venturi/internal/remote"
	"github.com/venturi-net/venturi/internal/verr"
)

// What a command that is held says when it has made its changes, and what it is told when
// they stay. At the end of its standard input, or of its lease, it undoes them.
const (
	ReadyLine = "held\n"
	KeepLine  = "keep\n"
)

// HoldLease bounds how long the changes of one of several machines stay when nobody says
// what becomes of them.
const HoldLease = time.Minute

// Limits of what the controller waits for; tests shorten them.
var (
	holdLimit     = HoldLease // until all machines have made their changes
	withdrawLimit = time.Minute
	// keepLimit is how long a machine may take to say that it has kept its changes, or undone
	// them: far longer than it takes, because what it says decides what others undo.
	keepLimit = 2 * time.Minute
	lateGrace = 5 * time.Second // for a command that is late, once it is interrupted
)

// CommitLimit bounds [Fleet.CommitWith], but for the caller's own change.
func CommitLimit() time.Duration { return holdLimit + lateGrace + keepLimit + withdrawLimit }

// Commit runs a command that is held, and so changes settings on all machines or on none of
// them: only when all have made their changes are they told to keep them. Each machine
// undoes its own by itself where this process, or the line to it, is gone.
//
// One case is left, as in every such protocol: a machine that is lost in the instant in which
// it is told. The error names it.
func (f *Fleet) Commit(ctx context.Context, args []string) []Reply {
	replies, _ := f.CommitWith(ctx, args, func(context.Context) error { return nil })
	return replies
}

// CommitWith is Commit with a change of the caller's own between those of the machines and the word
// to keep them. Its error is given, and undoes the machines' changes. Where it succeeds and a
// machine fails to keep its changes, or ctx ends, the caller's is for the caller to undo.
func (f *Fleet) CommitWith(ctx context.Context, args []string, change func(context.Context) error) (replies []Reply, err error) {
	work, interrupt := context.WithCancel(context.WithoutCancel(ctx))
	defer interrupt()
	uninterrupted := context.AfterFunc(ctx, interrupt)
	held := make([]*heldCommand, len(f.machines))
	for i := range held {
		held[i] = f.hold(work, i, args)
	}
	limit, stop := context.WithTimeout(context.Background(), holdLimit)
	defer stop()
	all := true
	for _, h := range held {
		all = h.awaitReady(limit) && all
	}
	if all {
		err = change(ctx)
		all = err == nil
	}
	if all && uninterrupted() { // from here on it is decided
		for _, h := range held {
			_, _ = io.WriteString(h.stdin, KeepLine) // an error: it has ended, and its reply says how
		}
	}
	for _, h := range held {
		if !h.late { // the end of its input would overtake its interruption
			_ = h.stdin.Close()
		}
	}
	grace, endGrace := context.WithTimeout(context.Background(), lateGrace)
	defer endGrace()
	keeping, endKeeping := context.WithTimeout(context.Background(), keepLimit)
	defer endKeeping()
	for _, h := range held {
		replies = append(replies, h.reply(grace, keeping))
	}
	if all {
		f.withdraw(ctx, replies)
	}
	return replies, err
}

// withdraw undoes what machines keep where another one has failed to. It is the cleaning up
// that an interruption asks for, so the end of ctx does not end it: it has a limit of its own.
func (f *Fleet) withdraw(ctx context.Context, replies []Reply) {
	var failed, keep []string
	for _, r := range replies {
		if r.Err != nil {
			failed = append(failed, r.Machine.Name)
		} else {
			keep = append(keep, r.Machine.Name)
		}
	}
	if len(failed) == 0 || len(keep) == 0 {
		return
	}
	f.say("undoing the changes of %s, because %s failed to keep its changes; this takes at most %v",
		strings.Join(keep, ", "), strings.Join(failed, ", "), withdrawLimit)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawLimit)
	defer cancel()
	var undoing sync.WaitGroup
	for i := range replies {
		if replies[i].Err == nil {
			undoing.Go(func() { replies[i].Err = f.undo(ctx, i, replies[i]) })
		}
	}
	undoing.Wait()
}

// undo undoes what a command says that it changed on one machine, and gives the error of that
// command: its changes are gone, or it says how to undo them.
func (f *Fleet) undo(ctx context.Context, i int, done Reply) error {
	txns, err := done.Txns()
	if err != nil {
		return &commandError{verr.Wrap(verr.Failed, "cannot undo the changes", fmt.Errorf("read what was changed: %w", err), "on that machine, list what is changed with: venturi journal --open")}
	}
	for _, t := range txns {
		id := strconv.Itoa(t.ID)
		ended := make(chan error, 1)
		go func() { ended <- f.runOne(ctx, i, []string{"undo", id}, nil, io.Discard).Err }()
		var err error
		select {
		case err = <-ended:
		case <-ctx.Done():
		}
		if ctx.Err() != nil { // an answer to that says only that it was interrupted
			err = fmt.Errorf("it took longer than %v", withdrawLimit)
		}
		if err != nil {
			return &commandError{verr.New(verr.Failed, "cannot undo transaction "+id, err.Error(), "undo it on that machine with: venturi undo "+id)}
		}
	}
	if len(txns) == 0 {
		return nil
	}
	return &commandError{verr.New(verr.Failed, "cannot keep the changes", "another machine failed to keep its changes", "nothing remains changed on this machine")}
}

// heldCommand is a command that waits for the word on its changes.
type heldCommand struct {
	machine   remote.Machine
	stdin     *io.PipeWriter
	out       heldOutput
	interrupt func()
	late      bool // it did not make its changes in time
	ended     chan struct{}
	result    Reply
}

// hold starts a command on one machine.
func (f *Fleet) hold(ctx context.Context, i int, args []string) *heldCommand {
	in, stdin := io.Pipe()
	ctx, interrupt := context.WithCancel(ctx)
	h := &heldCommand{machine: f.machines[i], stdin: stdin, out: heldOutput{ready: make(chan struct{})}, interrupt: interrupt, ended: make(chan struct{})}
	go func() {
		defer close(h.ended)
		defer interrupt()
		h.result = f.runOne(ctx, i, args, in, &h.out)
		_ = in.Close()
	}()
	return h
}

// awaitReady waits until the changes are made, or there are none to make. False: that went
// wrong, or took until the end of limit.
func (h *heldCommand) awaitReady(limit context.Context) bool {
	select {
	case <-h.out.ready:
		return true
	case <-h.ended:
		return h.result.Err == nil
	case <-limit.Done():
		h.late = true
		h.interrupt()
		return false
	}
}

// reply waits for the end of the command until keeping ends, or grace, if it is late and hangs.
func (h *heldCommand) reply(grace, keeping context.Context) Reply {
	if h.late {
		select {
		case <-h.ended:
		case <-grace.Done():
			return Reply{Machine: h.machine, Err: &commandError{verr.New(verr.Failed, "cannot change the settings",
				fmt.Sprintf("they were not made within %v, and the command does not respond", holdLimit),
				"it undoes its changes as soon as the driver returns; on that machine, list them with: venturi journal --open")}}
		}
	}
	select {
	case <-h.ended:
	case <-keeping.Done():
		return Reply{Machine: h.machine, Err: &commandError{verr.New(verr.Failed, "cannot change the settings",
			fmt.Sprintf("it did not report within %v whether it kept them", keepLimit), "on that machine, list what is changed with: venturi journal --open")}}
	}
	if h.late && h.result.Err != nil {
		h.result.Err = &commandError{verr.New(verr.Failed, "cannot change the settings",
			fmt.Sprintf("they were not made within %v (%v)", holdLimit, h.result.Err), "nothing remains changed there; check for a hanging driver with: dmesg")}
	}
	h.result.Stdout = []byte(strings.TrimPrefix(h.out.text.String(), ReadyLine))
	return h.result
}

// heldOutput is the output of a command, and knows when it is held.
type heldOutput struct {
	readyOnce sync.Once
	ready     chan struct{}
	text      replyText
}

func (o *heldOutput) Write(b []byte) (int, error) {
	n, err := o.text.Write(b)
	if bytes.HasPrefix(o.text.Bytes(), []byte(ReadyLine)) {
		o.readyOnce.Do(func() { close(o.ready) })
	}
	return n, err
}
