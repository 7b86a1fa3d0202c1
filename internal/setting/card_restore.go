package setting

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// restoreState adds to a card that is at home what it lacks of a state, and removes what is too
// much. What fails does not stop the rest. Sysctls come before it is up, for they say what the kernel does then.
func (at cardLocation) restoreState(want cardState) error {
	now, _, err := at.readState()
	if err != nil {
		return err
	}
	var failed []error
	try := func(what string, err error) bool {
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", what, err))
		}
		return err == nil
	}
	if now.Name != want.Name {
		try("set it down", at.setFlags(now.Flags&^unix.IFF_UP))
		if try("rename it to "+want.Name, at.setLink(nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(want.Name)))) {
			at.name = want.Name
		}
	}
	if now.MTU != want.MTU {
		try("set its MTU", at.setLink(nl.NewRtAttr(unix.IFLA_MTU, nl.Uint32Attr(uint32(want.MTU)))))
	}
	_ = at.restoreSysctls(want.Sysctls) // again below: some depend on others
	try("set its flags", at.setFlags(want.Flags))
	failed = append(failed, at.restoreMessages(want), at.restoreValues(want.Settings), at.restoreSysctls(want.Sysctls))
	return errors.Join(failed...)
}

// setFlags sets those of a device that somebody sets.
func (at cardLocation) setFlags(flags uint32) error {
	return at.do(func() error {
		req := nl.NewNetlinkRequest(unix.RTM_SETLINK, unix.NLM_F_ACK)
		msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
		msg.Index, msg.Flags, msg.Change = int32(at.index), flags, userFlags
		req.AddData(msg)
		_, err := req.Execute(unix.NETLINK_ROUTE, 0)
		return err
	})
}

// restoreSysctls writes those that differ. One of which the kernel takes no write is not
// necessarily wrong: that is for who reads the state.
func (at cardLocation) restoreSysctls(want map[string]string) error {
	return at.do(func() (failed error) {
		now := cardSysctls(at.name)
		files := sysctlFiles(at.name)
		for _, file := range slices.Sorted(maps.Keys(files)) {
			key := files[file]
			text, known := want[key]
			if old, readable := now[key]; !known || readable && old == text { // stable_secret can be read when it is set
				continue
			}
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				failed = errors.Join(failed, fmt.Errorf("write %s: %w", file, err))
			}
		}
		return failed
	})
}

// messageKind is how messages of a kind are read, made and removed.
type messageKind struct {
	what        string
	list        func(index int) ([]cardMessage, error)
	add, remove int
	want        []cardMessage
	attach      func(m rawMessage, index int) rawMessage // says of which card it is
}

// restoreMessages restores the card's addresses, routes and neighbours.
func (at cardLocation) restoreMessages(want cardState) error {
	inHeader := func(m rawMessage, index int) rawMessage {
		m = slices.Clone(m)
		setIndex(m, index)
		return m
	}
	kinds := []messageKind{
		{"address", func(i int) ([]cardMessage, error) { a, _, err := cardAddresses(i); return a, err }, unix.RTM_NEWADDR, unix.RTM_DELADDR, addingOrder(want.Addresses), inHeader},
		{"route", func(i int) ([]cardMessage, error) { r, _, err := cardRoutes(i); return r, err }, unix.RTM_NEWROUTE, unix.RTM_DELROUTE, want.Routes, func(m rawMessage, index int) rawMessage {
			return append(slices.Clone(m), nl.NewRtAttr(unix.RTA_OIF, nl.Uint32Attr(uint32(index))).Serialize()...)
		}},
		{"neighbour", cardNeighbours, unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH, want.Neighbours, inHeader},
	}
	return at.do(func() (failed error) {
		for _, k := range kinds {
			failed = errors.Join(failed, k.restore(at.index))
		}
		return failed
	})
}

// addingOrder is the order in which addresses are added, so that the kernel lists them in that
// in which they were listed: a later one of IPv6 comes before the earlier ones.
func addingOrder(listed []cardMessage) []cardMessage {
	isIPv6 := func(m cardMessage) bool { return len(m.Message) > 0 && m.Message[0] == unix.AF_INET6 }
	first := slices.IndexFunc(listed, isIPv6)
	if first < 0 {
		return listed
	}
	ordered := slices.Clone(listed)
	slices.Reverse(ordered[first:])
	return ordered
}

// restore makes the card have what is wanted of a kind, and nothing else. A route may need
// another one: what is refused is tried again as long as others succeed.
func (k messageKind) restore(index int) error {
	now, err := k.list(index)
	if err != nil {
		return err
	}
	send := func(command, flags int, m cardMessage) error {
		req := nl.NewNetlinkRequest(command, flags|unix.NLM_F_ACK)
		req.AddData(k.attach(m.Message, index))
		_, err := req.Execute(unix.NETLINK_ROUTE, 0)
		if err != nil {
			return fmt.Errorf("%s %s: %w", k.what, m.Text, err)
		}
		return nil
	}
	var unremoved error
	for _, m := range now {
		if !slices.ContainsFunc(k.want, m.equal) {
			if err := send(k.remove, 0, m); err != nil && !errors.Is(err, unix.ESRCH) && !errors.Is(err, unix.EADDRNOTAVAIL) {
				unremoved = errors.Join(unremoved, fmt.Errorf("remove %w", err))
			}
		}
	}
	missing := slices.DeleteFunc(slices.Clone(k.want), func(m cardMessage) bool { return slices.ContainsFunc(now, m.equal) })
	for len(missing) > 0 {
		var refused []cardMessage
		var failed error
		for _, m := range missing {
			flags := unix.NLM_F_CREATE | unix.NLM_F_EXCL
			if k.add == unix.RTM_NEWROUTE && m.Message[0] == unix.AF_INET {
				flags = unix.NLM_F_CREATE | unix.NLM_F_APPEND // there may be others to that destination
			}
			if err := send(k.add, flags, m); err != nil && !errors.Is(err, unix.EEXIST) {
				refused, failed = append(refused, m), errors.Join(failed, err)
			}
		}
		if len(refused) == len(missing) {
			return errors.Join(unremoved, fmt.Errorf("restore %w", failed))
		}
		missing = refused
	}
	return unremoved
}

// restoreValues writes the settings of the card that differ.
func (at cardLocation) restoreValues(want []deviceValue) error {
	scope, err := at.scope()
	if err != nil {
		return err
	}
	return NewSettings(deviceBackends()...).WithEntered(scope, func(known *Settings) (failed error) {
		for _, w := range want {
			s := Setting{Backend: w.Backend, Scope: scope, Key: w.Key}
			now, err := known.Read(s)
			if err == nil && !now.Equal(w.Value) {
				err = known.Write(s, w.Value)
			}
			if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, errors.ErrUnsupported) {
				failed = errors.Join(failed, err)
			}
		}
		return failed
	})
}
