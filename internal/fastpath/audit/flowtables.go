package audit

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/venturi-net/venturi/internal/nft"
	"github.com/venturi-net/venturi/internal/nlmsg"
	"golang.org/x/sys/unix"
)

// Attributes of a flowtable: NFTA_FLOWTABLE_TABLE, NFTA_FLOWTABLE_NAME.
const (
	flowtableTable = 1
	flowtableName  = 2
)

// flowtable names a flowtable that packets of the family may meet; "" means none. Where a device
// receives, it translates and forwards packets of the flows that rules have added, past all rules and
// without their conntrack entries. What a flow is before and after it cannot be told from its packets.
func flowtable(of Family) (first string, err error) {
	tables, err := nft.DumpFilter(unix.NFT_MSG_GETFLOWTABLE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EOPNOTSUPP) {
		return "", nil // this kernel has none
	}
	if err != nil {
		return "", fmt.Errorf("dump nftables flowtables: %w", err)
	}
	for _, m := range tables {
		name, err := flowtableOf(m, of)
		if err != nil {
			return "", fmt.Errorf("parse an nftables flowtable: %w", err)
		}
		first = cmp.Or(first, name)
	}
	return first, nil
}

// flowtableOf names the flowtable of a message; "" means that it is of another family.
func flowtableOf(message []byte, of Family) (string, error) {
	attrs, family, err := nft.FilterAttrs(message)
	if err != nil || slices.Contains(of.otherTables(), family) {
		return "", err
	}
	data := nlmsg.ByNumber(attrs)
	return fmt.Sprintf("%s %s %s", family, data.Text(flowtableTable), data.Text(flowtableName)), nil
}
