package fastpath

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath/audit"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/nft"
	"github.com/venturi-net/venturi/internal/nlmsg"
)

// unread is why nothing is carried at first.
const unread = "the packet filter has not been looked at yet"

// judgeAgain is when rules are read again that could not be.
const judgeAgain = time.Second

// restAtMost is how long they are not read at the most: a rule that nothing can be
// learned from must be found soon.
const restAtMost = 50 * time.Millisecond

// judge reads the rules and finds out whether what they say of a packet holds for
// the next one. What it takes is time, where they are many: it says how long they
// are not to be read then, if they change all the time; again: they are to be read
// once more anyway.
func (d *daemon) judge() (again <-chan time.Time, rest time.Duration, err error) {
	begin := time.Now()
	rulings, err := audit.Ruleset(d.Port)
	rest = min(10*time.Since(begin), restAtMost)
	if err != nil {
		// They change while they are read, as like as not.
		d.fickle = fmt.Sprintf("the packet filter cannot be read: %v", err)
		return time.After(judgeAgain), 0, d.judged()
	}
	ipsec, err := audit.IPsec()
	switch {
	case errors.Is(err, nlmsg.ErrInterrupted):
		d.fickle = fmt.Sprintf("the policies of IPsec cannot be read: %v", err)
		return time.After(judgeAgain), 0, d.judged()
	case err != nil:
		return nil, 0, err
	case ipsec:
		d.fickle = "there are IPsec policies, which apply behind what is skipped"
	case rulings.PerPacket != "":
		d.fickle = fmt.Sprintf("a rule may judge packets of one flow differently (%s)", rulings.PerPacket)
	default:
		d.fickle = ""
	}
	if err := d.askReplies(rulings.PerPacketUnreplied); err != nil {
		return nil, 0, err
	}
	moved := !maps.Equal(rulings.DeviceChains, d.rulings.DeviceChains) || rulings.MarkChain != d.rulings.MarkChain
	if d.rulings = rulings; moved {
		return nil, rest, d.resync() // and only then is anything carried
	}
	return nil, rest, d.judged()
}

// askReplies says why flows that nobody has replied to have to wait for that; "": they
// need not.
func (d *daemon) askReplies(why string) error {
	if d.waits != nil && *d.waits == why {
		return nil
	}
	d.waits = &why
	if err := d.fast.SetUnreplied(why == ""); err != nil {
		return err
	}
	return d.policy.raise()
}

// glance looks for what changes without news.
func (d *daemon) glance() error {
	var err error
	if d.legacy, err = d.silent(); err != nil {
		return err
	}
	if err := d.judged(); err != nil {
		return err
	}
	if len(d.missing) > 0 {
		if err := d.tell(); err != nil { // how far it is with that
			return err
		}
	}
	if settings := d.unsaid.Sysctls(); !slices.Equal(settings, d.settings) {
		d.settings = settings
		return errors.Join(d.policy.raise(), d.resync())
	}
	moved, err := d.moved()
	if err == nil && moved {
		err = d.reattach(slices.Collect(maps.Keys(d.attached))) // one of ours may have gone
	}
	if err == nil && (moved || d.resized()) {
		err = d.resync()
	}
	return err
}

// silent says what judges packets and tells nobody of its changes; "": nothing does.
func (d *daemon) silent() (string, error) {
	tables, err := d.unsaid.LegacyTables()
	if err != nil {
		return "", err
	}
	if len(tables) > 0 {
		return fmt.Sprintf("iptables-legacy has rules (%s), and tells nobody when they change", strings.Join(tables, ", ")), nil
	}
	bridges := d.bridged()
	function, told, err := d.unsaid.Hooks.UnknownFunction(d.Port != 0, bridges)
	if err != nil {
		return "", err
	}
	if function != "" {
		return fmt.Sprintf("netfilter has a hook (%s) that is no rule's, and tells nobody what it does", function), nil
	}
	if told {
		return "", nil
	}
	if bridges {
		if tables := nft.LegacyBridgeTables("/sys"); len(tables) > 0 {
			return fmt.Sprintf("ebtables-legacy is loaded (%s), and tells nobody when its rules change", strings.Join(tables, ", ")), nil
		}
	}
	hook, err := d.links.look(d.Port != 0)
	switch {
	case err != nil: // of whatever kind it is, it is looked at again
		return fmt.Sprintf("links of BPF cannot be read: %v", err), nil
	case hook != "":
		return fmt.Sprintf("there is a BPF program at netfilter's hook %s, in this network namespace or another", hook), nil
	}
	return "", nil
}

// bridged tells whether there are pods behind bridges.
func (d *daemon) bridged() bool {
	return slices.ContainsFunc(d.ways.Pods, func(p topology.LocalPod) bool { return p.NeighDevice != p.Device })
}

// torn is why nothing is carried while it is not known where everybody is.
const torn = "tables of the network change while they are read"

// judged switches everything off, or on, if there is a reason now that was not.
func (d *daemon) judged() error {
	off := cmp.Or(d.legacy, d.fickle, d.torn)
	if off == "" && d.ways.PerPacket != "" {
		off = fmt.Sprintf("packets of one flow may be routed differently (%s)", d.ways.PerPacket)
	}
	if off == d.off {
		return nil
	}
	d.off = off
	if err := d.policy.raise(); err != nil {
		return err
	}
	return d.beatOnce()
}
