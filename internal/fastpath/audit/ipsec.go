package audit

import (
	"errors"
	"fmt"

	"github.com/venturi-net/venturi/internal/nlmsg"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// IPsec reports whether the calling thread's namespace has IPsec policies of a family, other than those
// of single sockets. Such policies make the kernel encrypt packets after all rules, or require that
// they arrive encrypted.
func IPsec(of Family) (bool, error) {
	policies, err := nlmsg.Dump(func() ([]netlink.XfrmPolicy, error) { return netlink.XfrmPolicyList(int(of.Number())) })
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
