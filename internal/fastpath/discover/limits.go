package discover

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/nlmsg"
	"github.com/venturi-net/venturi/internal/verr"
)

// maxListed is how many devices, or neighbours of a version of IP, a node may have. The kernel keeps 1,024 neighbours
// unless somebody lets it keep more. Forwarding entries have a limit for each bridge, see [topology.ListFDB].
const maxListed = 1 << 16

// dump lists what a message requests, if there is not more than most of it: no more than that is kept.
func dump[T any](what string, most, request, reply int, header nl.NetlinkRequestData, parse func(message []byte) (T, error)) ([]T, error) {
	all, err := nlmsg.Dump(func() (all []T, err error) {
		req := nl.NewNetlinkRequest(request, unix.NLM_F_DUMP)
		req.AddData(header)
		failed := req.ExecuteIter(unix.NETLINK_ROUTE, uint16(reply), func(message []byte) (more bool) {
			if len(all) == most {
				err = tooMany(what, most)
				return false
			}
			var one T
			if one, err = parse(message); err != nil {
				return false
			}
			all = append(all, one)
			return true
		})
		return all, cmp.Or(err, failed)
	})
	if err != nil && !errors.As(err, new(*verr.Error)) {
		err = fmt.Errorf("list %s: %w", what, err)
	}
	return all, err
}

func tooMany(what string, most int) error {
	return verr.New(verr.Failed, "cannot plan the fast path", fmt.Sprintf("this network namespace has more than %d %s", most, what),
		`remove those that nobody needs; "ip -s link" and "ip neigh" list them`)
}
