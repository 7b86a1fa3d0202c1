package audit_test

import (
	"slices"
	"testing"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/fastpath/audit"
	"github.com/venturi-net/venturi/internal/testenv"
)

// No message of netfilter ends the daemon: neither one that is cut off, nor one whose attributes
// are empty, short, or nested where nothing is.
func TestMalformedMessages(t *testing.T) {
	header := []byte{unix.NFPROTO_IPV4, 0, 0, 0}
	messages := [][]byte{nil, header[:3], header}
	for number := range 30 {
		values := [][]byte{nil, {1}, {0, 0, 0}}
		for inner := range 12 {
			for _, value := range values[:3] {
				attr := nl.NewRtAttr(inner, value).Serialize()
				values = append(values, attr, nl.NewRtAttr(unix.NFTA_LIST_ELEM, attr).Serialize())
			}
		}
		for _, value := range values {
			attr := nl.NewRtAttr(number, value).Serialize()
			messages = append(messages, slices.Concat(header, attr), attr)
		}
	}
	for _, name := range []string{"cmp", "meta", "ct", "lookup", "bitwise", "payload", "immediate", "match", "target", "limit", "dynset", "range", "nat"} {
		for number := range 16 {
			for _, value := range [][]byte{nil, {1}, {0, 0, 0, 1}, nl.NewRtAttr(unix.NFTA_DATA_VALUE, nil).Serialize()} {
				expression := slices.Concat(nl.NewRtAttr(unix.NFTA_EXPR_NAME, nl.ZeroTerminated(name)).Serialize(),
					nl.NewRtAttr(unix.NFTA_EXPR_DATA, nl.NewRtAttr(number, value).Serialize()).Serialize())
				list := nl.NewRtAttr(unix.NFTA_RULE_EXPRESSIONS, nl.NewRtAttr(unix.NFTA_LIST_ELEM, expression).Serialize())
				messages = append(messages, slices.Concat(header, list.Serialize()))
			}
		}
	}
	testenv.SurviveMessages(t, audit.Parsers, messages)
}
