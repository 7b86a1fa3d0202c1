package setting

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
)

// From the kernel's netdev.h, which x/sys does not have.
const (
	netdevFamily  = "netdev"
	netdevNAPIGet = 11
	netdevNAPISet = 14
	napiIfindex   = 1
	napiID        = 2
)

// napiNumbers are what each NAPI of a device can have for itself, with the
// attributes.
var napiNumbers = map[string]uint16{"defer_hard_irqs": 5, flushTimeout: 6, SuspendTimeout: 7, "threaded": 8}

// Numbers of NAPIs, of which the kernel takes more than 32 bits.
const (
	flushTimeout   = "gro_flush_timeout"
	SuspendTimeout = "irq_suspend_timeout" // only a NAPI has it, no device as a whole
)

// napi is one NAPI: the number by which the kernel knows it, which another one
// gets when the device comes up anew, and what it has.
type napi struct {
	id     uint32
	values map[uint16]uint64
}

// napiBackend is what the NAPIs of a device have for themselves (Linux 6.13). A
// key is the position of one in their order, and what: "0/threaded".
func napiBackend() Backend {
	return Backend{
		Name: "napi",
		Read: func(s Setting) (v Value, err error) {
			err = s.withNAPI(func(_ uint16, n napi, attr uint16) error {
				number, has := n.values[attr]
				if !has {
					return fmt.Errorf("this kernel does not tell it: %w", os.ErrNotExist)
				}
				v = Text(strconv.FormatUint(number, 10))
				return nil
			})
			return v, err
		},
		Write: func(s Setting, v Value) error {
			number, err := strconv.ParseUint(strings.TrimSpace(v.String()), 10, 64)
			if err != nil || !v.Present {
				return fmt.Errorf("%q is not a number", v)
			}
			return s.withNAPI(func(family uint16, n napi, attr uint16) error {
				req := napiRequest(family, netdevNAPISet, unix.NLM_F_ACK)
				req.AddData(nl.NewRtAttr(napiID, nl.Uint32Attr(n.id)))
				data := nl.Uint32Attr(uint32(number))
				if (attr == napiNumbers[flushTimeout] || attr == napiNumbers[SuspendTimeout]) && number > 1<<32-1 {
					data = binary.NativeEndian.AppendUint64(nil, number)
				}
				req.AddData(nl.NewRtAttr(int(attr), data))
				_, err := req.Execute(unix.NETLINK_GENERIC, 0)
				return err
			})
		},
	}
}

func napiRequest(family uint16, command uint8, flags int) *nl.NetlinkRequest {
	req := nl.NewNetlinkRequest(int(family), flags)
	req.AddData(genlHeader{command, 1})
	return req
}

// genlHeader is command, version and two bytes of nothing. That of the library
// is two bytes long and sends what lies behind it in memory, which the kernel
// refuses.
type genlHeader [nl.SizeofGenlmsg]byte

// Len is of the library's interface of data.
func (h genlHeader) Len() int { return len(h) }

// Serialize is of the library's interface of data.
func (h genlHeader) Serialize() []byte { return h[:] }

// withNAPI runs fn in the namespace of the setting's device, for its NAPI.
func (s Setting) withNAPI(fn func(family uint16, n napi, attr uint16) error) error {
	position, what, _ := strings.Cut(s.Key, "/")
	attr, known := napiNumbers[what]
	n, err := strconv.Atoi(position)
	if err != nil || !known || s.Scope.Device == nil {
		return errors.New("no such number of a NAPI")
	}
	return s.Scope.enterDevice(func(_ string, index int) error {
		family, all, err := napis(index)
		if err != nil {
			return err
		}
		if n < len(all) {
			return fn(family, all[n], attr)
		}
		device, err := net.InterfaceByIndex(index)
		if err != nil {
			return err
		}
		if device.Flags&net.FlagUp == 0 {
			return &host.InactiveError{Why: "the device is down, and shows its NAPIs only when it is up"}
		}
		return fmt.Errorf("the device has %d NAPIs: %w", len(all), os.ErrNotExist)
	})
}

// napis lists the NAPIs of a device of the calling thread's namespace, in the
// order in which they were made. A kernel that does not tell them has none.
func napis(index int) (family uint16, all []napi, err error) {
	h, err := netlink.NewHandle(unix.NETLINK_GENERIC)
	if err != nil {
		return 0, nil, err
	}
	defer h.Close()
	// Asked for by its name, one that is not there would make the kernel run
	// modprobe each time.
	families, err := h.GenlFamilyList()
	if err != nil {
		return 0, nil, fmt.Errorf("find %s: %w", netdevFamily, err)
	}
	at := slices.IndexFunc(families, func(f *netlink.GenlFamily) bool { return f.Name == netdevFamily })
	if at < 0 {
		return 0, nil, nil
	}
	f := families[at]
	req := napiRequest(f.ID, netdevNAPIGet, unix.NLM_F_DUMP)
	req.AddData(nl.NewRtAttr(napiIfindex, nl.Uint32Attr(uint32(index))))
	answers, err := req.Execute(unix.NETLINK_GENERIC, 0)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL) {
		return f.ID, nil, nil // before Linux 6.8
	}
	if err != nil {
		return f.ID, nil, fmt.Errorf("list NAPIs: %w", err)
	}
	for _, answer := range answers {
		attrs, err := nl.ParseRouteAttr(answer[nl.SizeofGenlmsg:])
		if err != nil {
			return f.ID, nil, err
		}
		n := napi{values: map[uint16]uint64{}}
		for _, a := range attrs {
			if number, ok := numberOf(a); ok {
				n.values[a.Attr.Type&nlaType] = number
			}
		}
		n.id = uint32(n.values[napiID])
		all = append(all, n)
	}
	slices.SortFunc(all, func(a, b napi) int { return int(a.id) - int(b.id) })
	return f.ID, all, nil
}

// numberOf reads a number of 4 bytes, or of 8 where that is needed.
func numberOf(a syscall.NetlinkRouteAttr) (uint64, bool) {
	switch len(a.Value) {
	case 4:
		return uint64(binary.NativeEndian.Uint32(a.Value)), true
	case 8:
		return binary.NativeEndian.Uint64(a.Value), true
	}
	return 0, false
}

// NAPISettings lists the settings of what each NAPI of a device has for itself, of one
// kind: "threaded", "defer_hard_irqs", "gro_flush_timeout", [SuspendTimeout]. None on a kernel
// where only the device has it.
func NAPISettings(scope Scope, what string) (settings []Setting, err error) {
	if scope.Device == nil {
		return nil, errors.New("no device is named")
	}
	err = scope.enterDevice(func(_ string, index int) error {
		_, all, err := napis(index)
		for i, n := range all {
			if _, has := n.values[napiNumbers[what]]; has {
				settings = append(settings, Setting{Backend: "napi", Scope: scope, Key: fmt.Sprintf("%d/%s", i, what)})
			}
		}
		return err
	})
	return settings, err
}
