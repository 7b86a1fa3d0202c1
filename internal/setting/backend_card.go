package setting

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
)

// A network card may be moved to another network namespace for a while. The kernel then removes
// its addresses, routes, neighbours and settings. It moves a card back by itself only when
// that namespace ends, and only a hardware card: a software one ends with the namespace.

// cardBackend is in which network namespace a network card is. At home, where its setting's
// scope says, its value is all that the kernel removes from a card that leaves; elsewhere,
// the namespace and its name there. The key is the card's hardware address.
func cardBackend() Backend {
	return Backend{
		Name: cardBackendName,
		Read: func(s Setting) (Value, error) {
			at, err := s.locateCard()
			if err != nil {
				return Value{}, err
			}
			state := cardState{Netns: netnsName(at.netns), Name: at.name}
			if at.home {
				if state, _, err = at.readState(); err != nil {
					return Value{}, err
				}
			}
			return state.value()
		},
		Write: func(s Setting, v Value) error {
			var want cardState
			if err := json.Unmarshal(v.Data, &want); err != nil || want.Name == "" {
				return errors.Join(errors.New("it is not the state of a network card"), err)
			}
			at, err := s.locateCard()
			if err != nil {
				return err
			}
			if want.Netns != "" {
				return at.moveTo(want, s.cardMark())
			}
			return at.restore(s, want)
		},
		PartialWrite: func(asked, found Value) bool {
			var a, f cardState
			return json.Unmarshal(asked.Data, &a) == nil && json.Unmarshal(found.Data, &f) == nil && f.partOf(a)
		},
		// Drivers may ask for their interrupts anew when a card comes up.
		SideEffects: func(s Setting) ([]Setting, error) {
			irqs, err := irqSettings(s.Scope)
			if errors.Is(err, host.ErrGone) {
				return nil, nil
			}
			return irqs, err
		},
	}
}

const cardBackendName = "card"

// CardSetting is where a network card is, which is at home now.
func CardSetting(of Scope) (s Setting, err error) {
	s = Setting{Backend: cardBackendName, Scope: of}
	err = of.Enter(func(device string) error {
		h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return err
		}
		defer h.Close()
		link, err := h.LinkByName(device)
		if err == nil {
			s.Key = link.Attrs().HardwareAddr.String()
		}
		return err
	})
	return s, err
}

// MovedCard is the value of a card that is called name in a named namespace.
func MovedCard(netns, name string) (Value, error) {
	return cardState{Netns: netns, Name: name}.value()
}

// OfCard tells whether a setting is one of a card, such as its rings or a sysctl with its name.
func OfCard(s, card Setting) bool {
	if s.Scope.Device != nil {
		return s.Scope.identity() == card.Scope.identity()
	}
	if s.Scope.Netns == nil || (Scope{Netns: s.Scope.Netns}).identity() != (Scope{Netns: card.Scope.Netns}).identity() {
		return false
	}
	named, _ := path.Match("net/*/*/"+card.Scope.Device.Name+"/*", s.Key) // net/ipv4/conf/eth1/rp_filter
	return s.Backend == "sysctl" && named
}

// CardNetns tells to which namespace a write moves a card; empty: it moves none.
func CardNetns(w Write) string {
	var s cardState
	if w.Setting.Backend != cardBackendName || json.Unmarshal(w.Value.Data, &s) != nil {
		return ""
	}
	return s.Netns
}

// CardObstacles lists what a card has that could not be restored.
func CardObstacles(s Setting) ([]string, error) {
	at, err := s.locateCard()
	if err != nil {
		return nil, err
	}
	_, obstacles, err := at.readState()
	return obstacles, err
}

// cardPlace is where a card is found.
type cardLocation struct {
	netns string // a file
	home  bool   // it is the namespace of the setting's scope
	index int
	name  string
	alias string
}

// cardMark is the alias of the card while it is away: what software made has nothing else by
// which it could be known.
func (s Setting) cardMark() string {
	n := s.Scope.Netns
	return fmt.Sprintf("%s%s, number %d, of network namespace %d/%d", cardMarkPrefix, s.Scope.Device.Name, s.Scope.Device.Index, n.Inode, n.Cookie)
}

const cardMarkPrefix = "lent to venturi: "

// MarkedCards lists the devices of a network namespace that are cards of elsewhere, with the
// marks that say whose.
func MarkedCards(netns string) (cards []string, err error) {
	err = host.Do(netns, func() error {
		links, err := host.Links()
		for _, link := range links {
			if a := link.Attrs(); strings.HasPrefix(a.Alias, cardMarkPrefix) {
				cards = append(cards, fmt.Sprintf("%s (%s)", a.Name, a.Alias))
			}
		}
		return err
	})
	return cards, err
}

// isCard tells whether a device is the card: at home by its number, anywhere by its mark or
// its permanent address.
func (s Setting) isCard(link netlink.Link, home bool) bool {
	d, now, a := s.Scope.Device, deviceID(link), link.Attrs()
	if now.Kind != d.Kind || now.MAC != d.MAC {
		return false
	}
	return home && now.Index == d.Index && a.HardwareAddr.String() == s.Key || a.Alias == s.cardMark() || d.identifiable()
}

// AfterWrite is the setting with what was last written to it: a card that is away is looked for
// where that says.
func (s Setting) AfterWrite(v Value) Setting {
	s.awayIn = CardNetns(Write{s, v})
	return s
}

// locateCard finds the card: at home, or where it was moved to. Elsewhere its mark proves nothing, for
// a container may give that to a device of its own: only a permanent address does.
func (s Setting) locateCard() (at cardLocation, err error) {
	if s.Scope.Device == nil {
		return at, errors.New("no device is named")
	}
	home, err := s.Scope.Netns.find()
	if err != nil {
		return at, err
	}
	var seen []cardLocation
	look := func(path string, home bool) error {
		links, err := host.Links()
		for _, link := range links {
			if s.isCard(link, home) {
				a := link.Attrs()
				seen = append(seen, cardLocation{netns: path, home: home, index: a.Index, name: a.Name, alias: a.Alias})
			}
		}
		return err
	}
	if err := host.Do(home, func() error { return look(home, true) }); err != nil {
		return at, err
	}
	if len(seen) > 0 {
		return seen[0], nil
	}
	if s.awayIn != "" {
		away := host.NamespacePath(s.awayIn)
		_ = host.Do(away, func() error { return look(away, false) }) // if that fails, it is asked again below
		if len(seen) == 1 {
			return seen[0], nil
		}
		seen = nil
	}
	unseen := s.Scope.searchElsewhere(func(path string) error { return look(path, false) })
	d := s.Scope.Device
	switch {
	case len(seen) == 1 && d.identifiable():
		return seen[0], nil
	case len(seen) > 0:
		return at, fmt.Errorf("find network card %s: %s has a %s that may be it, or a container's: if it is, move it back by hand; else remove its alias; then try again", d.Name, seen[0].netns, d.Kind)
	case unseen != nil:
		return at, fmt.Errorf("find network card %s: it is not where it was, and not every other namespace could be searched: %w", d.Name, unseen)
	}
	return at, fmt.Errorf("network card %s: %w", d.Name, host.ErrGone)
}

// netnsName is the name of a namespace, or its file where it has none.
func netnsName(path string) string {
	if named := host.NamedFile(path); filepath.Dir(named) == host.NamespaceFolder {
		return filepath.Base(named)
	}
	return path
}

// do runs fn where the card is.
func (at cardLocation) do(fn func() error) error { return host.Do(at.netns, fn) }

// setLink changes the card by one message: nobody finds half of it.
func (at cardLocation) setLink(attrs ...*nl.RtAttr) error {
	return at.do(func() error {
		req := linkRequest(unix.RTM_SETLINK, at.index, unix.NLM_F_ACK)
		for _, a := range attrs {
			req.AddData(a)
		}
		_, err := req.Execute(unix.NETLINK_ROUTE, 0)
		return err
	})
}

// moveTo moves the card to another namespace, where it is down and has a mark.
func (at cardLocation) moveTo(want cardState, mark string) error {
	if filepath.Base(want.Netns) != want.Netns {
		return fmt.Errorf("%q is not the name of a network namespace", want.Netns)
	}
	if !at.home {
		return fmt.Errorf("it is in use elsewhere: it was moved to network namespace %s", netnsName(at.netns))
	}
	_, obstacles, err := at.readState()
	if err == nil && len(obstacles) > 0 {
		err = errors.New(strings.Join(obstacles, "; "))
	}
	if err != nil {
		return err
	}
	to, err := os.Open(host.NamespacePath(want.Netns))
	if err != nil {
		return err
	}
	defer to.Close()
	// The mark comes first: the kernel moves a card before it does the rest of a message.
	if err := at.setLink(nl.NewRtAttr(unix.IFLA_IFALIAS, []byte(mark))); err != nil {
		return err
	}
	err = at.setLink(nl.NewRtAttr(unix.IFLA_NET_NS_FD, nl.Uint32Attr(uint32(to.Fd()))), nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(want.Name)))
	if err != nil {
		// If it has moved nevertheless, its number is nobody's here, or the mark stays there.
		_ = at.setLink(nl.NewRtAttr(unix.IFLA_IFALIAS, []byte(at.alias)))
	}
	return err
}

// restore moves the card back, and restores what it had. The mark goes last: as long as it
// is there, something may be missing.
func (at cardLocation) restore(s Setting, want cardState) error {
	if !at.home {
		file, err := s.Scope.Netns.find()
		if err != nil {
			return err
		}
		home, err := os.Open(file)
		if err != nil {
			return err
		}
		defer home.Close()
		move := []*nl.RtAttr{
			nl.NewRtAttr(unix.IFLA_NET_NS_FD, nl.Uint32Attr(uint32(home.Fd()))), nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated(want.Name)),
			nl.NewRtAttr(unix.IFLA_NEW_IFINDEX, nl.Uint32Attr(uint32(s.Scope.Device.Index))), nl.NewRtAttr(unix.IFLA_IFALIAS, []byte(s.cardMark())),
		}
		err = at.setLink(move...)
		if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EINVAL) { // the number is taken, or the kernel lets nobody choose
			err = at.setLink(slices.Delete(move, 2, 3)...)
		}
		if err == nil {
			at, err = s.locateCard()
		}
		if err != nil {
			return fmt.Errorf("move it back: %w", err)
		}
	}
	if err := at.restoreState(want); err != nil {
		return err
	}
	return at.setLink(nl.NewRtAttr(unix.IFLA_IFALIAS, []byte(want.Alias)))
}
