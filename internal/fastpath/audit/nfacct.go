package audit

import (
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/nft"
	"github.com/venturi-net/venturi/internal/nlmsg"
)

// Netlink messages about nfacct's objects: nfnetlink_acct.h.
const (
	acctGet   = unix.NFNL_SUBSYS_ACCT<<8 | 1 // NFNL_MSG_ACCT_GET
	acctName  = 1
	acctQuota = 6
)

// hasQuota reports whether an object of nfacct has a quota. That does not change as long as a rule
// uses the object.
func hasQuota(name string) (bool, error) {
	req := nl.NewNetlinkRequest(acctGet, unix.NLM_F_ACK) // without one, the end of the answer would not be marked
	req.AddData(&nl.Nfgenmsg{NfgenFamily: unix.AF_UNSPEC, Version: unix.NFNETLINK_V0})
	req.AddData(nl.NewRtAttr(acctName, nl.ZeroTerminated(name)))
	found, err := req.Execute(unix.NETLINK_NETFILTER, acctGet&^0xff) // NFNL_MSG_ACCT_NEW
	if err != nil {
		return true, fmt.Errorf("look up nfacct object %s: %w", name, err)
	}
	if len(found) != 1 {
		return true, fmt.Errorf("look up nfacct object %s: got %d", name, len(found))
	}
	attrs, _, err := nft.FilterAttrs(found[0])
	return nlmsg.ByNumber(attrs).Has(acctQuota), err
}
