// Package journal makes each change to a machine durable before it happens, and
// undoes it.
//
// The rule is: first what is there is read, then the old value and the new one
// are on disk, then the new one is written, then what the machine made of it is
// read and recorded. Whatever ends a process, at whatever point, another one
// finds in the journal all that may have been changed, and from what. It knows
// settings and values, and no knobs: any version can undo what any other did.
//
// Undo brings the old bytes back, not defaults. It writes only where it finds
// what the journal says was written: anything else is somebody else's, and is
// reported and left alone. Nothing is ever undone because a process ended.
package journal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/verr"
)

// Folder is where the journal is kept: on disk, for some of what is changed
// outlives a reboot.
const Folder = "/var/lib/venturi/journal"

// FolderVariable names another folder, in the environment.
const FolderVariable = "VENTURI_JOURNAL"

// Options say how to open a journal for changing.
type Options struct {
	Folder   string // empty: [Folder]
	Settings *setting.Settings
	User     string // who changes the machine
	Command  string // by which command
	Version  string // of this program
	Boot     string // the kernel's boot id; empty: it is asked

	// Sight is what of the machine is in sight; without an ID it is asked.
	Sight host.Sight

	// Wait is how long to wait for somebody else who is changing the machine.
	Wait time.Duration

	// OnPoint is told of each point of the protocol as it is passed; nil: nobody is.
	OnPoint func(CrashPoint)
}

// CrashPoint is a point between two steps of the protocol, at which a process may
// end.
type CrashPoint string

// The points, in the order in which a write and its undo pass them.
const (
	PointRead     CrashPoint = "read"     // the old value is known, nothing is recorded
	PointRecorded CrashPoint = "recorded" // the intent is on disk, nothing is written
	PointWritten  CrashPoint = "written"  // the setting was written, that is not on disk
	PointMarked   CrashPoint = "marked"   // that it was written is on disk
	PointUndoing  CrashPoint = "undoing"  // the intent to undo is on disk
	PointRestored CrashPoint = "restored" // the old value stands, that is not on disk
	PointClosed   CrashPoint = "closed"   // that the old value stands is on disk
)

// Journal is the journal of this machine, open for changing it. While it is
// open, nobody else can open it so. It is for one goroutine at a time.
type Journal struct {
	reader
	options Options // but for Boot, Sight and Settings, which reader has
	log     *log
}

// reader tells what settings hold now, and what of that the writes of a journal explain.
type reader struct {
	boot     string // the kernel's boot id
	sight    host.Sight
	settings *setting.Settings
	h        *history
}

// Open opens the journal, and waits for whoever has it open. It is made if there
// is none. What became of writes of processes that were killed is looked at, and
// recorded; nothing is written to the machine. Errors: another one has it open
// (exit code 5); its folder cannot be written to, or others can too (exit code 3);
// the folder is a relative path (2); a later version wrote what this one does not know (1).
func Open(o Options) (*Journal, error) {
	if o.Folder == "" {
		o.Folder = Folder
	}
	if o.Boot == "" {
		var err error
		if o.Boot, err = host.BootID(); err != nil {
			return nil, err
		}
	}
	if o.Sight.ID == "" {
		o.Sight = host.Reader{}.Sight()
	}
	if o.OnPoint == nil {
		o.OnPoint = func(CrashPoint) {}
	}
	const poll = 20 * time.Millisecond
	l, text, err := openLog(o.Folder)
	for start := time.Now(); errors.Is(err, errBusy) && time.Since(start) < o.Wait; {
		time.Sleep(poll)
		l, text, err = openLog(o.Folder)
	}
	const what = "cannot open the journal of changes"
	if errors.Is(err, errBusy) {
		return nil, verr.New(verr.Busy, what, err.Error(), "wait until it is done, and try again")
	}
	if errors.Is(err, os.ErrPermission) {
		return nil, verr.Wrap(verr.Permission, what, err, "nothing was changed; run it as root, or through sudo")
	}
	if err != nil {
		return nil, verr.Wrap(verr.Failed, what, err, "nothing was changed; see that "+o.Folder+" can be written to, or name another folder in "+FolderVariable)
	}
	if err := forgetEndRequest(o.Folder); err != nil {
		return nil, errors.Join(verr.Wrap(verr.Failed, what, err, "nothing was changed; see that "+o.Folder+" can be written to"), l.close())
	}
	j := &Journal{reader{o.Boot, o.Sight, o.Settings, replay(text)}, o, l}
	if i := slices.IndexFunc(j.h.damaged, func(d Damage) bool { return d.Writer != "" }); i >= 0 {
		d := j.h.damaged[i]
		return nil, errors.Join(verr.New(verr.Failed, what, d.String(), "nothing was changed; use venturi "+d.Writer+" or a later one"), l.close())
	}
	j.resolveDoubts()
	return j, nil
}

// Close lets others change the machine.
func (j *Journal) Close() error { return j.log.close() }

// History is what a journal tells.
type History struct {
	Txns         []*Txn   `json:"transactions"`
	Damaged      []Damage `json:"damaged,omitempty"`
	Inconsistent []string `json:"strange,omitempty"` // records that do not fit to those before them
}

func (h *history) export() History { return History{h.txns, h.damaged, h.inconsistent} }

// History gives all that the journal tells, with what was done since it was opened.
func (j *Journal) History() History { return j.h.export() }

// ReadHistory reads a journal without opening it for changing; empty means [Folder].
// One that does not exist tells nothing. Errors: that others may write to it
// (exit code 3); a relative path (2).
func ReadHistory(folder string) (History, error) {
	if folder == "" {
		folder = Folder
	}
	if err := CheckFolder(folder); err != nil {
		return History{}, err
	}
	var text []byte
	file, err := openIn(folder, os.O_RDONLY)
	if err == nil {
		defer file.Close()
		text, err = io.ReadAll(file)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return History{}, verr.Wrap(verr.Failed, "cannot read the journal of changes", err, "run it as root, or name another folder in "+FolderVariable)
	}
	return replay(text).export(), nil
}

// add makes records durable, and knows them from then on.
func (j *Journal) add(records ...record) error {
	if err := j.log.add(records...); err != nil {
		return fmt.Errorf("record it in the journal: %w", err)
	}
	for _, r := range records {
		j.h.apply(r)
	}
	return nil
}

// Confirm ends the lease of a trial: it stays. Errors: there is no such
// transaction, or it is no trial (exit code 2); it was undone already, or was not
// written to its end.
func (j *Journal) Confirm(txn int) error {
	t := j.h.txn(txn)
	what := fmt.Sprintf("cannot confirm transaction %d", txn)
	switch {
	case t == nil:
		return noTxn("confirm", txn)
	case t.Lease == nil:
		return verr.New(verr.Usage, what, "it is not on trial: it stays until it is undone", "nothing needs to be done")
	case t.OfProof():
		return verr.New(verr.Usage, what, "it belongs to a proof, which undoes all of its changes", fmt.Sprintf("undo the rest of it with: venturi undo %d", txn))
	case !t.Ended:
		return verr.New(verr.Failed, what, "it was never finished: only a part of its changes may be in effect", fmt.Sprintf("undo it with: venturi undo %d; then make the changes again", txn))
	case len(t.Entries) > 0 && !t.Open():
		return verr.New(verr.Failed, what, "it was undone already", "look at it with: venturi journal; then make the changes again")
	}
	return j.add(record{Confirm: &confirmRecord{Txn: txn, Time: time.Now()}})
}

// Expired lists the transactions whose lease ended without being confirmed,
// and that were not undone. With the machine's last boot all leases end.
func (j *Journal) Expired() ([]int, error) {
	now, err := host.SinceBootAsleep()
	if err != nil {
		return nil, err
	}
	var ids []int
	for _, t := range j.h.txns {
		rebooted := t.Boot != j.boot && j.sees(t.Sight) // else this is a container with a boot id of its own
		late := t.Lease != nil && (rebooted || t.Boot == j.boot && now >= t.Lease.Until)
		if late && t.Confirmed.IsZero() && t.Open() {
			ids = append(ids, t.ID)
		}
	}
	return ids, nil
}
