package lab

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/journal"
	"github.com/venturi-net/venturi/internal/netcfg"
	"github.com/venturi-net/venturi/internal/setting"
	"github.com/venturi-net/venturi/internal/verr"
)

// A card that a lab takes is the host's own: the journal records its state before it moves, and
// restores it. Whatever ends the lab does so before it deletes the namespace: a software card
// would end with it.

// checkTake refuses a card that is in use, or whose state could not be restored. It changes
// nothing. Errors are for a user.
func (c SharedCard) checkTake() error {
	refuse := func(why string) error {
		return verr.New(verr.Usage, "cannot take network card "+c.Device, why, "name a spare card, or share this one: --dev in place of --take")
	}
	if os.Geteuid() != 0 {
		return needRoot("cannot take network card " + c.Device)
	}
	use, err := host.CardUse(c.Device, controlAddress())
	if err != nil {
		return fmt.Errorf("check who uses network card %s: %w", c.Device, err)
	}
	if use != "" {
		return refuse("it is in use: " + use)
	}
	card, err := c.setting()
	if err != nil {
		return err
	}
	obstacles, err := setting.CardObstacles(card)
	if err != nil {
		return fmt.Errorf("read the state of network card %s: %w", c.Device, err)
	}
	if len(obstacles) > 0 {
		return refuse("its state could not be restored exactly: " + strings.Join(obstacles, "; "))
	}
	h, err := journal.ReadHistory(os.Getenv(journal.FolderVariable))
	if err != nil {
		return err
	}
	boot := (host.Reader{}).BootID()
	for _, t := range h.Txns {
		for _, e := range t.Entries {
			if t.Boot == boot && e.State.Open() && setting.OfCard(e.Setting, card) {
				return refuse(fmt.Sprintf("change %d of the journal is still in force on it (%s): \"venturi undo %[1]d\" reverts it", t.ID, e.Setting))
			}
		}
	}
	return nil
}

// controlAddress is where the ssh connection comes from that this process serves; not valid:
// that is not known.
func controlAddress() netip.Addr {
	client, _, _ := strings.Cut(os.Getenv("SSH_CONNECTION"), " ")
	addr, _ := netip.ParseAddr(client)
	return addr
}

// setting is that of the card, which is the host's now.
func (c SharedCard) setting() (setting.Setting, error) {
	scope, err := setting.DeviceScope("", c.Device)
	if err != nil {
		return setting.Setting{}, err
	}
	return setting.CardSetting(scope)
}

// journalWait is how long another process may change this host meanwhile.
var journalWait = host.ScaleTimeout(10 * time.Second)

// openJournal opens the host's journal for changing.
func openJournal(command, version string) (*journal.Journal, error) {
	return journal.Open(journal.Options{Folder: os.Getenv(journal.FolderVariable), Settings: setting.NewSettings(setting.Backends("")...),
		User: journal.User(os.Getenv), Command: command, Version: version, Wait: journalWait})
}

// takeCard makes the host's card the machine's device on the wire.
func (b *builder) takeCard(ctx context.Context, p Part) error {
	own := b.peers[p.Self]
	if err := p.moveCard(own.In); err != nil {
		return err
	}
	if err := own.In.SetMTU(WireDevice, p.MTU); err != nil {
		return err
	}
	if err := own.In.Up(WireDevice); err != nil {
		return err
	}
	// The other machine's card may have to come up first.
	ctx, cancel := context.WithTimeout(ctx, carrierLimit)
	defer cancel()
	err := own.In.AwaitCarrier(ctx, WireDevice)
	if errors.Is(err, context.DeadlineExceeded) {
		return verr.New(verr.Failed, "cannot use network card "+p.Card.Device, fmt.Sprintf("it has no carrier %v after it was set up", carrierLimit),
			"check the cable, and that the other end is up")
	}
	return err
}

// moveCard moves the card to a namespace of the lab, which the journal knows before.
func (p Part) moveCard(to *netcfg.Namespace) (err error) {
	card, err := p.Card.setting()
	if err != nil {
		return err
	}
	there, err := setting.MovedCard(to.Name(), WireDevice)
	if err != nil {
		return err
	}
	j, err := openJournal("venturi --take "+p.Card.Device, p.Version)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	if err := p.Card.checkTake(); err != nil { // it may be used since it was inspected
		return err
	}
	tx, err := j.Begin(0)
	if err != nil {
		return err
	}
	if _, err := tx.Set("card", setting.Write{Setting: card, Value: there}); err != nil {
		return fmt.Errorf("take network card %s: %w", p.Card.Device, err)
	}
	return tx.End()
}

// carrierLimit is how long a card may take to find its carrier: some negotiate for seconds.
var carrierLimit = host.ScaleTimeout(15 * time.Second)

// takenCards lists the transactions by which a lab has cards that were not restored.
func takenCards(name string) (txns []int, err error) {
	h, err := journal.ReadHistory(os.Getenv(journal.FolderVariable))
	if err != nil {
		return nil, err
	}
	for _, t := range h.Txns {
		for _, e := range t.Entries {
			lab, ours := netcfg.LabOf(setting.CardNetns(setting.Write{Setting: e.Setting, Value: e.New}))
			if e.State.Open() && ours && lab == name {
				txns = append(txns, t.ID)
			}
		}
	}
	return txns, nil
}

// restoreCards undoes those transactions. Nothing of the lab runs any more.
func restoreCards(txns []int) (err error) {
	if len(txns) == 0 {
		return nil
	}
	j, err := openJournal("venturi lab down", "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	outcomes, err := j.Undo(txns, journal.UndoOptions{})
	for _, o := range outcomes {
		if o.Err != nil {
			err = errors.Join(err, fmt.Errorf("restore %s (\"venturi undo %d\" tries again): %w", o.Entry.Setting, o.Entry.Txn, o.Err))
		}
	}
	return err
}

// removeCards restores the cards that a lab took. Remain is why its namespaces must not be
// deleted: a card may be in one. Failed is what else could not be restored.
func removeCards(name string, namespaces []string) (failed, remain error) {
	txns, unread := takenCards(name)
	failed = restoreCards(txns)
	cards, hidden, err := markedCards(namespaces)
	switch {
	case err != nil:
		return nil, errors.Join(failed, err)
	case len(cards) > 0:
		why := "the journal has no entry for it"
		if err := errors.Join(unread, failed); err != nil {
			why = err.Error()
		}
		return nil, verr.New(verr.Failed, "cannot delete the namespace of network card "+strings.Join(cards, ", "), why,
			fmt.Sprintf("move the card back with `venturi undo`, or by hand: `ip -n NAMESPACE link set DEVICE netns 1 name NAME alias ''`; then run `venturi lab down --name %s`", name))
	case failed != nil && len(hidden) > 0:
		return nil, fmt.Errorf("%w; and a card may be in %s, which cannot be entered", failed, strings.Join(hidden, ", "))
	}
	return failed, nil // a lab without cards does not need the journal
}

// markedCards lists the host's cards in namespaces, and which namespaces were not looked at:
// another mount hides them, or they were only half made.
func markedCards(namespaces []string) (cards, hidden []string, err error) {
	for _, n := range namespaces {
		file := host.NamespacePath(n)
		if _, err := host.ID(file); err != nil {
			hidden = append(hidden, n)
			continue
		}
		found, err := setting.MarkedCards(file)
		if err != nil {
			return nil, nil, fmt.Errorf("look for network cards in namespace %s: %w", n, err)
		}
		for _, card := range found {
			cards = append(cards, card+" in namespace "+n)
		}
	}
	return cards, hidden, nil
}
