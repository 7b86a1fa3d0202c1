package setting

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
)

// privateFlagBackend is what drivers have of their own, one flag a setting. A key is
// its name, the value "on" or "off".
func privateFlagBackend() Backend {
	return Backend{
		// What a flag does is the driver's affair. With many of them it makes the device anew, or has the
		// link negotiated again.
		Name: "privflag", Settle: time.Second,
		Read: func(s Setting) (Value, error) {
			all, err := PrivateFlags(s.Scope)
			if err != nil {
				return Value{}, err
			}
			on, known := all[s.Key]
			if !known {
				return Value{}, fmt.Errorf("its driver knows no such flag: %w", os.ErrNotExist)
			}
			return Text(host.OnOff(on)), nil
		},
		Write: func(s Setting, v Value) error {
			on, err := isOn(v)
			if err != nil {
				return err
			}
			return withEthtool(s.Scope, func(e *ethConn) error {
				return e.set(unix.ETHTOOL_MSG_PRIVFLAGS_SET, func(a *netlink.AttributeEncoder) error {
					encodeBit(a, unix.ETHTOOL_A_PRIVFLAGS_FLAGS, s.Key, on)
					return nil
				})
			})
		},
	}
}

// PrivateFlags gives the flags that a device's driver has of its own.
// Error: errors.ErrUnsupported, where it has none.
func PrivateFlags(scope Scope) (map[string]bool, error) {
	all := map[string]bool{}
	err := withEthtool(scope, func(e *ethConn) error {
		return e.get(unix.ETHTOOL_MSG_PRIVFLAGS_GET, func(d *netlink.AttributeDecoder) error {
			if d.Type() != unix.ETHTOOL_A_PRIVFLAGS_FLAGS {
				return nil
			}
			return decodeBits(d, all)
		})
	})
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("its driver has none: %w", errors.ErrUnsupported)
	}
	return all, err
}
