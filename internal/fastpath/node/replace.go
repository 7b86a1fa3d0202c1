package node

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath"
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/verr"
)

// takeOver has the process that carries or compares here hand over. That process leaves everything in place
// and exits; its transaction is then that of this process. Packets take the slow path until this one
// carries.
func (f files) takeOver(ctx context.Context, j *journal.Journal) (holding, error) {
	const what = "cannot take over the fast path"
	s, err := ownSetting()
	if err != nil {
		return holding{}, err
	}
	txns := openTxns(j, s)
	if len(txns) != 1 {
		return holding{}, verr.New(verr.Busy, what, "it was enabled with another journal", "set VENTURI_JOURNAL to the folder of that journal; or end it with: venturi fastpath disable")
	}
	if txns[0].Lease != nil {
		return holding{}, verr.New(verr.Busy, what, "it is a trial, which ends by itself", "wait until it has ended; or end it with: venturi fastpath disable")
	}
	taken := f.pins
	if _, err := os.Stat(f.config); errors.Is(err, fs.ErrNotExist) { // it carries IPv6 alone
		taken = f.ipv6().pins
	}
	if !fastpath.HasTables(taken) {
		return holding{}, verr.New(verr.Busy, what, "its pinned programs are not visible here: it runs in another mount namespace, as in a container",
			"run the command in that mount namespace; or end it with: venturi fastpath disable")
	}
	pins, err := kernel.AcquirePinLock(ctx, taken, true)
	if err != nil {
		return holding{}, verr.Wrap(verr.Busy, what, err, "its process does not answer; end it with: venturi fastpath disable")
	}
	defer pins.Close()
	for limit := time.Now().Add(stopTimeout); ; {
		lock, err := kernel.LockFolder(ctx, f.folder)
		if !errors.Is(err, kernel.ErrLocked) || time.Now().After(limit) {
			return holding{txns[0].ID, lock, f.carried()}, err
		}
	}
}

// ListensAt tells whether the process that carries or compares in this network namespace is known to listen at an
// address, or at all of them.
func ListensAt(at netip.AddrPort) bool {
	f, err := ownFiles()
	if err != nil {
		return false
	}
	p := f.holder()
	if p == nil {
		return false
	}
	defer release(p)
	return host.ListensAt(p.Pid, at)
}

// carried tells whether the daemon that was here last has carried packets, and not only compared them. It does not say so of
// a daemon whose config cannot be read.
func (f files) carried() bool {
	four, err := runningConfig(f.config)
	return err == nil && (four == nil || !four.Shadow) // a shadow, also one of IPv6, has the files of IPv4
}

// Choice is what a process was asked to carry, whatever of it can be carried.
type Choice struct {
	NAT          bool     `json:"nat"`
	IPv6         bool     `json:"ipv6"`
	KeepCounters []string `json:"keep_counters"`
}

// RunningChoice is that of the process of the calling thread's namespace, whether it lives or not; nil:
// there is none. Of a process that has kept none, it is what it carries: of a mere shadow, nothing.
func RunningChoice() (c *Choice, err error) {
	f, err := ownFiles()
	if err != nil {
		return nil, err
	}
	if v, err := read(); err != nil || !v.Present { // or it is that of an earlier namespace with this number
		return nil, err
	}
	if err := host.ReadJSON(f.choice, &c); c != nil || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return c, err
	}
	four, err := runningConfig(f.config)
	if err != nil {
		return nil, err
	}
	six, err := runningConfig(f.ipv6().config)
	if err != nil || four == nil && six == nil {
		return nil, err
	}
	either := cmp.Or(four, six)
	if either.Shadow {
		return nil, nil
	}
	return &Choice{NAT: !either.NoNAT, IPv6: six != nil, KeepCounters: either.KeepCounters}, nil
}

// runningConfig reads that of a daemon; nil: there is none.
func runningConfig(file string) (*fastpath.Config, error) {
	c, err := fastpath.Load(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return c, err
}
