package setting

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
)

// linkNumbers are the numbers that rtnetlink shows of a device, by their names
// in `ip -d link`. All have 32 bits.
var linkNumbers = map[string]struct {
	attr    int
	written bool // the others are only read
}{
	"mtu":               {unix.IFLA_MTU, true},
	"min_mtu":           {unix.IFLA_MIN_MTU, false},
	"max_mtu":           {unix.IFLA_MAX_MTU, false},
	"txqueuelen":        {unix.IFLA_TXQLEN, true},
	"gso_max_size":      {unix.IFLA_GSO_MAX_SIZE, true},
	"gro_max_size":      {unix.IFLA_GRO_MAX_SIZE, true},
	"gso_ipv4_max_size": {unix.IFLA_GSO_IPV4_MAX_SIZE, true},
	"gro_ipv4_max_size": {unix.IFLA_GRO_IPV4_MAX_SIZE, true},
	"tso_max_size":      {unix.IFLA_TSO_MAX_SIZE, false},
}

// linkBackend is the numbers of a network device that rtnetlink shows and takes.
// A key is one of [linkNumbers].
func linkBackend() Backend {
	return Backend{
		Name: "link", Settle: 100 * time.Millisecond,
		SettleOf: map[string]time.Duration{"mtu": 500 * time.Millisecond}, // drivers may make the whole device anew for it
		Read: func(s Setting) (v Value, err error) {
			err = withLink(s, func(index, attr int) error {
				n, err := readLink(index, attr)
				if err == nil {
					v = Text(strconv.FormatUint(uint64(n), 10))
				}
				return err
			})
			return v, err
		},
		Write: func(s Setting, v Value) error {
			n, err := strconv.ParseUint(strings.TrimSpace(v.String()), 10, 32)
			if err != nil || !v.Present {
				return fmt.Errorf("%q is not a number of 32 bits", v)
			}
			if !linkNumbers[s.Key].written {
				return fmt.Errorf("%s cannot be set", s.Key)
			}
			return withLink(s, func(index, attr int) error { return writeLink(index, attr, uint32(n)) })
		},
		Matches:     equivalentText,
		Equivalent:  equivalentText,
		SideEffects: linkSideEffects,
	}
}

// withLink runs fn in the namespace of a setting's device, if it is there.
func withLink(s Setting, fn func(index, attr int) error) error {
	number, known := linkNumbers[s.Key]
	if !known || s.Scope.Device == nil {
		return errors.New("no such number of a device")
	}
	return s.Scope.enterDevice(func(_ string, index int) error { return fn(index, number.attr) })
}

func linkRequest(command, index, flags int) *nl.NetlinkRequest {
	req := nl.NewNetlinkRequest(command, flags)
	msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
	msg.Index = int32(index)
	req.AddData(msg)
	return req
}

func readLink(index, attr int) (uint32, error) {
	answers, err := linkRequest(unix.RTM_GETLINK, index, 0).Execute(unix.NETLINK_ROUTE, unix.RTM_NEWLINK)
	if errors.Is(err, unix.ENODEV) {
		return 0, fmt.Errorf("%w: %w", host.ErrGone, err)
	}
	if err != nil || len(answers) == 0 {
		return 0, errors.Join(err, errors.New("the kernel gave no answer about it"))
	}
	attrs, err := nl.ParseRouteAttr(answers[0][unix.SizeofIfInfomsg:])
	if err != nil {
		return 0, err
	}
	for _, a := range attrs {
		if int(a.Attr.Type) == attr && len(a.Value) == 4 {
			return binary.NativeEndian.Uint32(a.Value), nil
		}
	}
	return 0, fmt.Errorf("this kernel does not tell it: %w", os.ErrNotExist)
}

func writeLink(index, attr int, n uint32) error {
	req := linkRequest(unix.RTM_SETLINK, index, unix.NLM_F_ACK)
	req.AddData(nl.NewRtAttr(attr, nl.Uint32Attr(n)))
	_, err := req.Execute(unix.NETLINK_ROUTE, 0)
	return err
}

// linkSideEffects lists what the kernel moves along with a number.
func linkSideEffects(s Setting) ([]Setting, error) {
	sibling := func(key string) []Setting { return []Setting{{Backend: s.Backend, Scope: s.Scope, Key: key}} }
	switch s.Key {
	case "mtu":
		own, err := otherDeviceSettings(s)
		if err != nil {
			return nil, err
		}
		others, err := mtuSideEffects(s.Scope)
		return append(own, others...), err
	case "gso_max_size": // up to 65536 it is that of IPv4 too
		return sibling("gso_ipv4_max_size"), nil
	case "gro_max_size":
		return sibling("gro_ipv4_max_size"), nil
	}
	return nil, nil
}
