package audit

import (
	"errors"
	"fmt"

	"github.com/venturi-net/venturi/internal/nlmsg"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// IPsec tells whether the calling thread's namespace has policies of IPsec that are
// not a single socket's: by them, the kernel encrypts packets behind all rules, or
// wants that they came encrypted.
func IPsec() (bool, error) {
	policies, err := nlmsg.Dump(func() ([]netlink.XfrmPolicy, error) { return netlink.XfrmPolicyList(netlink.FAMILY_V4) })
	if errors.Is(err, unix.EPROTONOSUPPORT) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("list policies of IPsec: %w", err)
	}
	for _, p := range policies {
		if p.Dir <= netlink.XFRM_DIR_FWD {
			return true, nil
		}
	}
	return false, nil
}
