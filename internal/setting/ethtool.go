package setting

import (
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/mdlayher/genetlink"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// ethConn asks the kernel about one network device, and tells it, in the
// language of ethtool: generic netlink.
type ethConn struct {
	conn   *genetlink.Conn
	family uint16
	device string
}

// withEthtool runs fn for the device of a scope.
// Errors: [host.ErrGone], or one that is errors.ErrUnsupported on a kernel without it;
// unix.ENODEV alone, of a device that does not answer now.
func withEthtool(scope Scope, fn func(*ethConn) error) error {
	if scope.Device == nil {
		return errors.New("no device is named")
	}
	if in := scope.entered; in != nil {
		if in.eth == nil {
			e, err := dialEthtool(in.device)
			if err != nil {
				return err
			}
			in.eth = e
		}
		return scope.explainMissing(in.device, fn(in.eth))
	}
	return scope.Enter(func(device string) error {
		e, err := dialEthtool(device)
		if err != nil {
			return err
		}
		defer e.conn.Close()
		return scope.explainMissing(device, fn(e))
	})
}

// explainMissing says what it means that ethtool knows no such device, which was there
// by that name just before: it went away, or it has another name since, or its driver has
// detached it for a while, as for a reset, after which it may have all that was set.
func (s Scope) explainMissing(device string, err error) error {
	if !errors.Is(err, unix.ENODEV) {
		return err
	}
	if _, missing := net.InterfaceByName(device); missing != nil {
		if _, gone := s.Device.find(); gone != nil {
			return gone
		}
	}
	return fmt.Errorf("it is there and does not answer, as while its driver resets it; try again: %w", unix.ENODEV)
}

// dialEthtool opens ethtool in the calling thread's namespace.
func dialEthtool(device string) (e *ethConn, err error) {
	conn, err := genetlink.Dial(nil)
	if err != nil {
		return nil, fmt.Errorf("open ethtool: %w", err)
	}
	defer func() {
		if err != nil {
			conn.Close()
		}
	}()
	family, err := conn.GetFamily(unix.ETHTOOL_GENL_NAME)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("this kernel does not speak ethtool over netlink: %w", errors.ErrUnsupported)
	}
	if err != nil {
		return nil, fmt.Errorf("open ethtool: %w", err)
	}
	// The kernel says in words why it refuses something.
	if err := conn.SetOption(netlink.ExtendedAcknowledge, true); err != nil {
		return nil, fmt.Errorf("open ethtool: %w", err)
	}
	return &ethConn{conn: conn, family: family.ID, device: device}, nil
}

// headerAttr is the attribute that names the device, first in every message.
const headerAttr = 1

// get asks one question, and hands each attribute of the answer to fn.
func (e *ethConn) get(command uint8, fn func(*netlink.AttributeDecoder) error) error {
	answers, err := e.send(command, 0, nil)
	if err != nil {
		return err
	}
	if len(answers) != 1 {
		return fmt.Errorf("the kernel gave %d answers to one question", len(answers))
	}
	d, err := netlink.NewAttributeDecoder(answers[0].Data)
	if err != nil {
		return fmt.Errorf("decode what ethtool says: %w", err)
	}
	for d.Next() {
		if err := fn(d); err != nil {
			return err
		}
	}
	return d.Err()
}

// set tells the kernel what fill adds to the message.
func (e *ethConn) set(command uint8, fill func(*netlink.AttributeEncoder) error) error {
	_, err := e.send(command, netlink.Acknowledge, fill)
	return err
}

func (e *ethConn) send(command uint8, flags netlink.HeaderFlags, fill func(*netlink.AttributeEncoder) error) ([]genetlink.Message, error) {
	a := netlink.NewAttributeEncoder()
	a.Nested(headerAttr, func(h *netlink.AttributeEncoder) error {
		h.String(unix.ETHTOOL_A_HEADER_DEV_NAME, e.device)
		if fill != nil {
			h.Uint32(unix.ETHTOOL_A_HEADER_FLAGS, unix.ETHTOOL_FLAG_OMIT_REPLY)
		}
		return nil
	})
	if fill != nil {
		if err := fill(a); err != nil {
			return nil, err
		}
	}
	data, err := a.Encode()
	if err != nil {
		return nil, fmt.Errorf("encode for ethtool: %w", err)
	}
	m := genetlink.Message{Header: genetlink.Header{Command: command, Version: unix.ETHTOOL_GENL_VERSION}, Data: data}
	answers, err := e.conn.Execute(m, e.family, netlink.Request|flags)
	return answers, refusal(err)
}

// refusal leaves of the kernel's answer what it says, and its number.
func refusal(err error) error {
	said, number := new(netlink.OpError), unix.Errno(0)
	if !errors.As(err, &said) || !errors.As(err, &number) {
		return err
	}
	if said.Message != "" {
		return fmt.Errorf("%s: %w", said.Message, number)
	}
	return driverError(number)
}

// driverError says in words that the driver of a device has not what was asked of it:
// which has what differs from kernel to kernel.
func driverError(number unix.Errno) error {
	if number == unix.EOPNOTSUPP {
		return fmt.Errorf("the device's driver, as it is in this kernel, cannot do that: %w", number)
	}
	return number
}

// decodeBits reads a set of named bits: of one with a mask, those of the mask
// and whether they are set; of one without, those that are set.
func decodeBits(d *netlink.AttributeDecoder, set map[string]bool) error {
	bare := false
	d.Nested(func(d *netlink.AttributeDecoder) error {
		for d.Next() {
			switch d.Type() {
			case unix.ETHTOOL_A_BITSET_NOMASK:
				bare = true
			case unix.ETHTOOL_A_BITSET_BITS:
				d.Nested(func(d *netlink.AttributeDecoder) error {
					for d.Next() {
						d.Nested(func(d *netlink.AttributeDecoder) error {
							name, on := decodeBit(d)
							set[name] = on || bare
							return nil
						})
					}
					return nil
				})
			}
		}
		return nil
	})
	return d.Err()
}

func decodeBit(d *netlink.AttributeDecoder) (name string, on bool) {
	for d.Next() {
		switch d.Type() {
		case unix.ETHTOOL_A_BITSET_BIT_NAME:
			name = d.String()
		case unix.ETHTOOL_A_BITSET_BIT_VALUE:
			on = true
		}
	}
	return name, on
}

// encodeBit writes a set that says something of one bit, and nothing of others.
func encodeBit(a *netlink.AttributeEncoder, attr uint16, name string, on bool) {
	a.Nested(attr, func(set *netlink.AttributeEncoder) error {
		set.Nested(unix.ETHTOOL_A_BITSET_BITS, func(bits *netlink.AttributeEncoder) error {
			bits.Nested(unix.ETHTOOL_A_BITSET_BITS_BIT, func(bit *netlink.AttributeEncoder) error {
				bit.String(unix.ETHTOOL_A_BITSET_BIT_NAME, name)
				if on {
					bit.Flag(unix.ETHTOOL_A_BITSET_BIT_VALUE, true)
				}
				return nil
			})
			return nil
		})
		return nil
	})
}
