package nft

import (
	"github.com/venturi-net/venturi/internal/nlmsg"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// ExpressionData splits an element of a rule's list.
func ExpressionData(elem []byte) (name string, data nlmsg.Map, err error) {
	attrs, err := nl.ParseRouteAttr(elem)
	if err != nil {
		return "", nil, err
	}
	data = nlmsg.Map{}
	for _, a := range attrs {
		switch nlmsg.Number(a.Attr.Type) {
		case unix.NFTA_EXPR_NAME:
			name = unix.ByteSliceToString(a.Value)
		case unix.NFTA_EXPR_DATA:
			parts, err := nl.ParseRouteAttr(a.Value)
			if err != nil {
				return name, nil, err
			}
			for _, p := range parts {
				data[nlmsg.Number(p.Attr.Type)] = p.Value
			}
		}
	}
	return name, data, nil
}
