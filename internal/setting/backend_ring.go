package setting

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

var rings = fields{
	backendName: "ring", settle: time.Second, get: unix.ETHTOOL_MSG_RINGS_GET, set: unix.ETHTOOL_MSG_RINGS_SET,
	list: []field{
		{"rx", unix.ETHTOOL_A_RINGS_RX, number, unix.ETHTOOL_A_RINGS_RX_MAX},
		{"rx-mini", unix.ETHTOOL_A_RINGS_RX_MINI, number, unix.ETHTOOL_A_RINGS_RX_MINI_MAX},
		{"rx-jumbo", unix.ETHTOOL_A_RINGS_RX_JUMBO, number, unix.ETHTOOL_A_RINGS_RX_JUMBO_MAX},
		{"tx", unix.ETHTOOL_A_RINGS_TX, number, unix.ETHTOOL_A_RINGS_TX_MAX},
		{"rx-buf-len", unix.ETHTOOL_A_RINGS_RX_BUF_LEN, number, 0},
		{"tcp-data-split", unix.ETHTOOL_A_RINGS_TCP_DATA_SPLIT, choice, 0},
		{"cqe-size", unix.ETHTOOL_A_RINGS_CQE_SIZE, number, 0},
		{"tx-push", unix.ETHTOOL_A_RINGS_TX_PUSH, flag, 0},
		{"rx-push", unix.ETHTOOL_A_RINGS_RX_PUSH, flag, 0},
		{"tx-push-buf-len", unix.ETHTOOL_A_RINGS_TX_PUSH_BUF_LEN, number, unix.ETHTOOL_A_RINGS_TX_PUSH_BUF_LEN_MAX},
		{"hds-thresh", unix.ETHTOOL_A_RINGS_HDS_THRESH, number, unix.ETHTOOL_A_RINGS_HDS_THRESH_MAX},
	},
	rounds: roundedUp, disturbs: true, queues: true,
}

// roundedUp tells whether a driver may make found of asked: of a ring's places a
// multiple of what its cards take, or a power of two.
func roundedUp(name string, asked, found int) bool {
	if !slices.Contains([]string{"rx", "rx-mini", "rx-jumbo", "tx"}, name) {
		return false
	}
	for step := 8; step <= 128; step *= 2 {
		if found == (asked+step-1)/step*step {
			return true
		}
	}
	return asked > 0 && found >= asked && found < 2*asked && found&(found-1) == 0
}
