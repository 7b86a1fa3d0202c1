package setting

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/sanitize"
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

// linkStore is the numbers of a network device that rtnetlink shows and takes.
// A key is one of [linkNumbers].
func linkStore() Store {
	return Store{
		Name: "link",
		Read: func(c Cell) (v Value, err error) {
			err = inLink(c, func(attr int) error {
				n, err := readLink(c.Place.Device.Index, attr)
				if err == nil {
					v = Text(strconv.FormatUint(uint64(n), 10))
				}
				return err
			})
			return v, err
		},
		Write: func(c Cell, v Value) error {
			n, err := strconv.ParseUint(strings.TrimSpace(v.String()), 10, 32)
			if err != nil || !v.Present {
				return fmt.Errorf("%q is not a number of 32 bits", v)
			}
			if !linkNumbers[c.Key].written {
				return fmt.Errorf("%s cannot be set", c.Key)
			}
			return inLink(c, func(attr int) error { return writeLink(c.Place.Device.Index, attr, uint32(n)) })
		},
		Alike:  sameText,
		Same:   sameText,
		Around: aroundLink,
	}
}

// inLink runs fn in the namespace of a cell's device, if it is there.
func inLink(c Cell, fn func(attr int) error) error {
	number, known := linkNumbers[c.Key]
	if !known || c.Place.Device == nil {
		return errors.New("no such number of a device")
	}
	return c.Place.Enter(func(string) error { return fn(number.attr) })
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

// aroundLink lists what the kernel moves along with a number.
func aroundLink(c Cell) ([]Cell, error) {
	sibling := func(key string) []Cell { return []Cell{{Store: c.Store, Place: c.Place, Key: key}} }
	switch c.Key {
	case "mtu": // drivers may make the whole device anew for it
		own, err := deviceCellsBut(c)
		if err != nil {
			return nil, err
		}
		others, err := aroundMTU(c.Place)
		return append(own, others...), err
	case "gso_max_size": // up to 65536 it is that of IPv4 too
		return sibling("gso_ipv4_max_size"), nil
	case "gro_max_size":
		return sibling("gro_ipv4_max_size"), nil
	}
	return nil, nil
}

// DeviceFiles lists files of a device in sysfs that match a pattern, as keys of
// the store "net", in the order of the numbers in their names:
// "queues/rx-*/rps_cpus".
func DeviceFiles(p Place, pattern string) (keys []string, err error) {
	if p.Device == nil {
		return nil, errors.New("no device is named")
	}
	err = p.Enter(func(device string) error {
		return p.sysfs(func(root string) error {
			folder := filepath.Join(root, "class/net", device)
			files, err := sanitize.Files(folder, pattern)
			for _, file := range files {
				keys = append(keys, strings.TrimPrefix(file, folder+"/"))
			}
			return err
		})
	})
	slices.SortFunc(keys, byNumbers)
	return keys, err
}

// byNumbers compares names so that rx-10 comes after rx-9.
func byNumbers(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}
