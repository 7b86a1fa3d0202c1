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

// Feature is one offload of a device.
type Feature struct {
	Wanted   bool // what was asked for
	Active   bool // what is in effect
	Settable bool // it is not fixed
}

// DeviceFeatures gives all offloads that the kernel knows of a device, by the
// names that `ethtool -k` prints for single bits.
func DeviceFeatures(scope Scope) (all map[string]Feature, err error) {
	err = withEthtool(scope, func(e *ethConn) error {
		all, err = e.features()
		return err
	})
	return all, err
}

func (e *ethConn) features() (map[string]Feature, error) {
	hardware, wanted, active, fixed := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	err := e.get(unix.ETHTOOL_MSG_FEATURES_GET, func(d *netlink.AttributeDecoder) error {
		switch d.Type() {
		case unix.ETHTOOL_A_FEATURES_HW:
			return decodeBits(d, hardware)
		case unix.ETHTOOL_A_FEATURES_WANTED:
			return decodeBits(d, wanted)
		case unix.ETHTOOL_A_FEATURES_ACTIVE:
			return decodeBits(d, active)
		case unix.ETHTOOL_A_FEATURES_NOCHANGE:
			return decodeBits(d, fixed)
		}
		return nil
	})
	all := map[string]Feature{}
	for name, can := range hardware {
		all[name] = Feature{Wanted: wanted[name], Active: active[name], Settable: can && !fixed[name]}
	}
	return all, err
}

// featureBackend is the offloads of devices, one a setting. A key is its name, the
// value "on" or "off": what is wanted, for that is what the kernel keeps. What is
// in effect follows from it, and from other offloads. A feature that is fixed
// is not supported.
func featureBackend() Backend {
	return Backend{
		Name: "feature", Settle: 20 * time.Millisecond,
		Read: func(s Setting) (Value, error) {
			all, err := DeviceFeatures(s.Scope)
			if err != nil {
				return Value{}, err
			}
			f, known := all[s.Key]
			switch {
			case !known:
				return Value{}, fmt.Errorf("this kernel knows no such feature: %w", os.ErrNotExist)
			case !f.Settable:
				return Value{}, fmt.Errorf("it is fixed: %w", errors.ErrUnsupported)
			}
			return Text(host.OnOff(f.Wanted)), nil
		},
		Write: func(s Setting, v Value) error {
			on, err := isOn(v)
			if err != nil {
				return err
			}
			return withEthtool(s.Scope, func(e *ethConn) error {
				return e.set(unix.ETHTOOL_MSG_FEATURES_SET, func(a *netlink.AttributeEncoder) error {
					encodeBit(a, unix.ETHTOOL_A_FEATURES_WANTED, s.Key, on)
					return nil
				})
			})
		},
		SideEffects: lowerFeatures,
	}
}

func isOn(v Value) (bool, error) {
	switch {
	case v.Equal(Text("on")):
		return true, nil
	case v.Equal(Text("off")):
		return false, nil
	}
	return false, fmt.Errorf("%q is neither on nor off", v)
}

// lro is the one feature that a device which loses it takes from those below
// it too, such as a bond from its cards: for good, as if somebody had asked.
const lro = "rx-lro"

func lowerFeatures(s Setting) ([]Setting, error) {
	if s.Key != lro {
		return nil, nil
	}
	scopes, err := lowerScopes(s.Scope)
	var settings []Setting
	for seen := map[int]bool{}; len(scopes) > 0 && err == nil; {
		scope := scopes[0]
		var more []Scope
		if !seen[scope.Device.Index] {
			seen[scope.Device.Index] = true
			if all, err := DeviceFeatures(scope); err == nil && all[lro].Settable {
				settings = append(settings, Setting{Backend: s.Backend, Scope: scope, Key: lro})
			}
			more, err = lowerScopes(scope)
		}
		scopes = append(scopes[1:], more...)
	}
	return settings, err
}

// lowerScopes lists the devices in the same namespace that a device stands on.
func lowerScopes(scope Scope) (scopes []Scope, err error) {
	err = scope.enterDevice(func(_ string, index int) error {
		links, err := host.Links()
		if err != nil {
			return err
		}
		on := 0
		for _, l := range links {
			if a := l.Attrs(); a.Index == index && l.Type() != "veth" {
				on = a.ParentIndex
			}
		}
		for _, l := range links {
			if a := l.Attrs(); a.MasterIndex == index || on != 0 && on == a.Index && a.Index != index {
				scopes = append(scopes, Scope{Netns: scope.Netns, Device: deviceID(l)})
			}
		}
		return nil
	})
	return scopes, err
}
