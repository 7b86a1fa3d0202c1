package testenv

import (
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Lose lets the packet filter of a namespace, given by its file, drop every
// oneIn-th of the UDP datagrams that arrive. They are counted and not drawn, so
// that a test which sends enough of them loses some for certain. With 0 it
// drops none, but each datagram still passes the same rule: an arm that loses
// and one that does not then differ in nothing else.
func Lose(t testing.TB, namespace string, oneIn uint32) {
	t.Helper()
	// The generator counts from 0 to below its modulus, so that is never hit.
	modulus, hit := oneIn, oneIn-1
	if oneIn == 0 {
		modulus, hit = 10_000, 10_000
	}
	drop(t, namespace, "lose", nftables.ChainHookInput, unix.IPPROTO_UDP,
		&expr.Numgen{Register: 1, Modulus: modulus, Type: unix.NFT_NG_INCREMENTAL},
		&expr.Cmp{Register: 1, Op: expr.CmpOpEq, Data: binaryutil.NativeEndian.PutUint32(hit)},
		&expr.Counter{},
	)
}
