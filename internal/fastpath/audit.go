package fastpath

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/venturi-net/venturi/internal/fastpath/audit"
	"github.com/venturi-net/venturi/internal/fastpath/kernel"
	"github.com/venturi-net/venturi/internal/fastpath/topology"
	"github.com/venturi-net/venturi/internal/nft"
	"github.com/venturi-net/venturi/internal/nlmsg"
)

// auditState is what the audit of the host's rules has found.
type auditState struct {
	off        string  // why nothing is carried: the first of the reasons below, or that of the routes
	unwatched  string  // rules or hooks whose changes the kernel does not announce
	perPacket  string  // a rule whose verdict depends on the packet
	stale      string  // why the topology must be read first: a dump of it was interrupted, or see leaveStrangers
	done       bool    // the rules were audited once; nothing is attached before that
	replies    *string // why flows must have a reply first; nil: unknown, and they must
	rules      audit.RulesetAudit
	numbers    trackingNumbers       // of the rules, and of bridgesAsk
	ipsets     *audit.IPSetPoller    // of those that rules depend on
	links      *audit.NetfilterLinks // where the kernel does not list its hooks
	sysctls    []string              // that rules and headers depend on, as last read
	accounting bool                  // connection tracking counts
	bridgesAsk bool                  // a bridge of its own has packets meet the rules for IP
}

// needsReply says why flows must have a reply before they are carried; "": they need none,
// or that is not known yet.
func (a *auditState) needsReply() string {
	if a.replies == nil {
		return ""
	}
	return *a.replies
}

// notAuditedYet is why nothing is carried at first.
const notAuditedYet = "the packet filter has not been looked at yet"

// openPoller opens the poller of the calling thread's namespace.
func (d *daemon) openPoller() (err error) {
	if d.audit.ipsets, err = audit.OpenIPSetPoller(); err != nil {
		return err
	}
	if d.poller, err = topology.OpenPoller(d.Devices.Family); err != nil {
		d.audit.ipsets.Close()
	}
	d.programs.poller = d.poller
	return err
}

// closePoller closes what openPoller has opened.
func (d *daemon) closePoller() {
	d.poller.Close()
	d.audit.ipsets.Close()
}

// auditRetry is the delay after rules could not be read.
const auditRetry = time.Second

// auditRules reads the rules, and finds out whether their verdict on a packet holds for the
// next packet of its flow. If again is not nil, the rules could not be read, and the next audit is
// due when it fires.
func (d *daemon) auditRules() (again <-chan time.Time, err error) {
	d.lease.AuditBegins()
	number := d.events.trackingNumbers().rules
	read, err := d.takeRules()
	if err != nil {
		return nil, err
	}
	rules := read.audit
	d.audit.perPacket = read.reason
	if read.unread {
		return time.After(auditRetry), d.updateGate()
	}
	again, err = d.watchIPSets(rules.IPSets)
	if again != nil || err != nil {
		return again, err
	}
	if err := errors.Join(d.flows.followUpdates(rules.ReadsConnMark), d.setNeedsReply(rules)); err != nil {
		return nil, err
	}
	changed := !maps.Equal(rules.DeviceChains, d.audit.rules.DeviceChains) || rules.MarkChain != d.audit.rules.MarkChain ||
		!rules.Strangers.Equal(d.audit.rules.Strangers)
	d.audit.rules, d.audit.numbers.rules = rules, number
	if changed || !d.audit.done {
		d.audit.done = true
		if err := d.leaveStrangers(); err != nil {
			return nil, err
		}
		err = d.resync() // which opens the gate afterwards
	} else {
		err = errors.Join(d.followTracking(), d.updateGate())
	}
	return nil, errors.Join(err, d.lease.AuditEnds(func() error { return d.epoch.bump(causeDelay) }))
}

// takeRules gives what was read of the rules before the programs were loaded, unless there has been
// an event since, or reads them.
func (d *daemon) takeRules() (rulesRead, error) {
	first := d.early.rules
	d.early.rules = nil
	if first == nil || len(d.events.filled) > 0 {
		return d.readRules()
	}
	return *first, nil
}

// watchIPSets watches the ipsets that rules depend on. If they cannot be read, the next audit is due
// when the channel fires.
func (d *daemon) watchIPSets(names []string) (again <-chan time.Time, err error) {
	changed, err := d.audit.ipsets.Watch(names)
	if err != nil {
		d.audit.perPacket = fmt.Sprintf("the ipsets cannot be read: %v", err)
		return time.After(auditRetry), d.updateGate()
	}
	if changed {
		err = d.invalidate(causeIPSets) // one may have changed before
	}
	return nil, err
}

// pollIPSets has the rules audited again if an ipset that they depend on has changed.
func (d *daemon) pollIPSets() {
	if changed, err := d.audit.ipsets.Changed(); changed || err != nil {
		d.events.push([]topology.Event{{Changes: topology.RulesChanged, Cause: causeIPSets}})
	}
}

// outerProtocols are the IP protocols of tunnels, by the kind of the fast path.
var outerProtocols = map[string]int{VXLAN: syscall.IPPROTO_UDP, VXLAN6: syscall.IPPROTO_UDP, Geneve: syscall.IPPROTO_UDP, IPIP: syscall.IPPROTO_IPIP}

// overlay is what rules meet of the tunnels.
func (d *daemon) overlay() audit.Overlay {
	return audit.Overlay{Family: d.Devices.Family, Protocol: outerProtocols[d.Kind], Port: d.Port, Wire: d.Devices.Wire, ByDevice: d.Kind == VXLAN6}
}

// readRules reads the rules of the namespace.
func (d *daemon) readRules() (rulesRead, error) {
	rules, err := audit.Ruleset(d.overlay())
	if err != nil {
		return rulesRead{rules, fmt.Sprintf("the packet filter cannot be read: %v", err), true}, nil
	}
	ipsec, err := audit.IPsec(d.Devices.Family)
	if errors.Is(err, nlmsg.ErrInterrupted) {
		return rulesRead{rules, fmt.Sprintf("the IPsec policies cannot be read: %v", err), true}, nil
	}
	if err != nil {
		return rulesRead{}, err
	}
	reason := ""
	switch {
	case ipsec:
		reason = "there are IPsec policies, which carried packets would bypass"
	case rules.Flowtable != "":
		reason = fmt.Sprintf("the flowtable %s translates and forwards packets past the rules, unseen by the fast path", rules.Flowtable)
	case rules.LeavesMark && d.Kind == VXLAN6:
		reason = fmt.Sprintf("rules may mark packets (%s) that then enter the tunnel: its own route and rules see the mark, which carried packets lack", rules.MarkChain)
	case rules.HidesEvents != "":
		reason = fmt.Sprintf("a rule decides which events of connections are announced (%s): it may hide that a carried one has changed or ended", rules.HidesEvents)
	case rules.PerPacket != "":
		reason = fmt.Sprintf("the verdict of a rule may differ between packets of a flow (%s)", rules.PerPacket)
	}
	return rulesRead{rules, reason, false}, nil
}

// setNeedsReply sets why flows must have a reply before they are carried, going by the rules; none: they
// need none.
func (d *daemon) setNeedsReply(rules audit.RulesetAudit) error {
	why := rules.PerPacketUnreplied
	if d.audit.replies != nil && *d.audit.replies == why && d.audit.rules.Translates == rules.Translates {
		return nil
	}
	d.audit.replies = &why
	if err := d.objs.SetUnreplied(why == "", rules.Translates); err != nil {
		return err
	}
	return d.invalidate(topology.Rules)
}

// poll looks for changes that the kernel does not announce.
func (d *daemon) poll() error {
	d.pollIPSets()
	news := d.programs.objectIDs.Poll()
	advertised, err := d.advertised()
	if err != nil {
		return err
	}
	if d.activity.resumed {
		d.activity.resumed = false
		news = kernel.BPFNews{Programs: true, XDPLinks: true}
		d.neigh.learned = true
	}
	d.programs.note(news)
	reset := d.readSysctls()
	if d.audit.unwatched, err = d.findUnwatched(news.Programs); err != nil {
		return err
	}
	if d.audit.done {
		if err := d.followTracking(); err != nil {
			return err
		}
	}
	if err := d.updateGate(); err != nil {
		return err
	}
	if len(d.attach.missing) > 0 {
		if err := d.writeState(); err != nil { // how many pods still wait
			return err
		}
	}
	if reset {
		if err := d.invalidate(topology.Sysctl); err != nil {
			return err
		}
	}
	changed, inPods, err := d.pollPrograms()
	if err != nil {
		return err
	}
	if !reset && !advertised && !changed && !inPods && !d.mtusChanged() {
		return nil
	}
	begin := time.Now()
	err = d.resync()
	if advertised {
		d.neigh.nextAdvertised = time.Now().Add(min(mtusRest*time.Since(begin), maxAdvertisedRest))
	}
	return err
}

// pollPrograms tells whether programs were attached or detached, and whether pods' own devices have changed. It plans
// to attach those of the daemon again that somebody else has detached.
func (d *daemon) pollPrograms() (changed, inPods bool, err error) {
	begin := time.Now()
	changed, all, err := d.programs.changed(d.pollBatch())
	if err != nil {
		return false, false, err
	}
	if all {
		inPods = d.programs.podsDue() && d.poller.PodsChanged(d.topo.Pods)
		d.programs.nextFull = begin.Add(fullPollRest * min(time.Since(begin), maxFullPoll))
	}
	if changed { // one of ours may be detached
		err = d.reattach(slices.Collect(maps.Keys(d.attach.attached)))
	}
	return changed, inPods, err
}

// readSysctls reads whether connections are counted, and the sysctls that affect packets, and tells
// whether one of these has changed.
func (d *daemon) readSysctls() (changed bool) {
	d.audit.accounting = d.poller.CountsConnections()
	was := d.audit.sysctls
	d.audit.sysctls = d.poller.Sysctls()
	return !slices.Equal(was, d.audit.sysctls)
}

// findUnwatched names rules or hooks whose changes the kernel does not announce; "": there
// are none. If there are new BPF programs or links, it looks at all hooks.
func (d *daemon) findUnwatched(news bool) (string, error) {
	tables, err := d.poller.LegacyTables()
	if err != nil {
		return "", err
	}
	bridges := len(d.bypassed.Bridges) > 0
	function, listed, err := d.poller.Hooks.UnknownFunction(d.hasTunnels(), bridges, news)
	if err != nil {
		return "", err
	}
	if len(tables) > 0 {
		return fmt.Sprintf("iptables-legacy has rules (%s), whose changes are not announced", strings.Join(tables, ", ")), nil
	}
	if function != "" {
		return fmt.Sprintf("unknown netfilter hook %s: its effect cannot be checked", function), nil
	}
	if why := d.poller.SysctlRefusal(d.audit.sysctls); why != "" {
		return why, nil
	}
	if listed {
		return "", nil
	}
	if bridges {
		if tables := nft.LegacyBridgeTables("/sys"); len(tables) > 0 {
			return fmt.Sprintf("ebtables-legacy is loaded (%s), and changes of its rules are not announced", strings.Join(tables, ", ")), nil
		}
	}
	hook, err := d.audit.links.Look(d.hasTunnels())
	switch {
	case err != nil: // of any kind: the next poll reads them again
		return fmt.Sprintf("BPF links cannot be read: %v", err), nil
	case hook != "":
		return fmt.Sprintf("a BPF program is attached to the netfilter hook %s, in this network namespace or another", hook), nil
	}
	return "", nil
}

// interruptedReason is why nothing is carried until the topology was read completely.
const interruptedReason = "the network's tables changed while they were read"

// offReason says why nothing is carried; "": nothing is in the way.
func (d *daemon) offReason() string {
	off := cmp.Or(d.audit.unwatched, d.audit.perPacket, d.audit.stale, d.topo.TooMany)
	if off == "" && d.topo.PerPacket != "" {
		off = fmt.Sprintf("packets of one flow may take different routes (%s)", d.topo.PerPacket)
	}
	return cmp.Or(off, d.counters().Conflict(d.KeepCounters))
}

// updateGate revokes the lease if there is a reason to, and renews it when there is none.
func (d *daemon) updateGate() error {
	off := d.offReason()
	if off == d.audit.off {
		return nil
	}
	d.audit.off = off
	if err := d.invalidate(causeRefusal); err != nil {
		return err
	}
	return d.renewLease()
}
