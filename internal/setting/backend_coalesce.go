package setting

import (
	"time"

	"golang.org/x/sys/unix"
)

// coalesceAggrMaxBytes is ETHTOOL_A_COALESCE_TX_AGGR_MAX_BYTES, which the
// attributes for frames and time follow.
const coalesceAggrMaxBytes = 26

var coalesce = fields{
	backendName: "coalesce", settle: 20 * time.Millisecond, get: unix.ETHTOOL_MSG_COALESCE_GET, set: unix.ETHTOOL_MSG_COALESCE_SET,
	list: []field{
		{"adaptive-rx", unix.ETHTOOL_A_COALESCE_USE_ADAPTIVE_RX, flag, 0},
		{"adaptive-tx", unix.ETHTOOL_A_COALESCE_USE_ADAPTIVE_TX, flag, 0},
		{"rx-usecs", unix.ETHTOOL_A_COALESCE_RX_USECS, number, 0},
		{"rx-frames", unix.ETHTOOL_A_COALESCE_RX_MAX_FRAMES, number, 0},
		{"rx-usecs-irq", unix.ETHTOOL_A_COALESCE_RX_USECS_IRQ, number, 0},
		{"rx-frames-irq", unix.ETHTOOL_A_COALESCE_RX_MAX_FRAMES_IRQ, number, 0},
		{"tx-usecs", unix.ETHTOOL_A_COALESCE_TX_USECS, number, 0},
		{"tx-frames", unix.ETHTOOL_A_COALESCE_TX_MAX_FRAMES, number, 0},
		{"tx-usecs-irq", unix.ETHTOOL_A_COALESCE_TX_USECS_IRQ, number, 0},
		{"tx-frames-irq", unix.ETHTOOL_A_COALESCE_TX_MAX_FRAMES_IRQ, number, 0},
		{"stats-block-usecs", unix.ETHTOOL_A_COALESCE_STATS_BLOCK_USECS, number, 0},
		{"pkt-rate-low", unix.ETHTOOL_A_COALESCE_PKT_RATE_LOW, number, 0},
		{"rx-usecs-low", unix.ETHTOOL_A_COALESCE_RX_USECS_LOW, number, 0},
		{"rx-frames-low", unix.ETHTOOL_A_COALESCE_RX_MAX_FRAMES_LOW, number, 0},
		{"tx-usecs-low", unix.ETHTOOL_A_COALESCE_TX_USECS_LOW, number, 0},
		{"tx-frames-low", unix.ETHTOOL_A_COALESCE_TX_MAX_FRAMES_LOW, number, 0},
		{"pkt-rate-high", unix.ETHTOOL_A_COALESCE_PKT_RATE_HIGH, number, 0},
		{"rx-usecs-high", unix.ETHTOOL_A_COALESCE_RX_USECS_HIGH, number, 0},
		{"rx-frames-high", unix.ETHTOOL_A_COALESCE_RX_MAX_FRAMES_HIGH, number, 0},
		{"tx-usecs-high", unix.ETHTOOL_A_COALESCE_TX_USECS_HIGH, number, 0},
		{"tx-frames-high", unix.ETHTOOL_A_COALESCE_TX_MAX_FRAMES_HIGH, number, 0},
		{"sample-interval", unix.ETHTOOL_A_COALESCE_RATE_SAMPLE_INTERVAL, number, 0},
		{"cqe-mode-tx", unix.ETHTOOL_A_COALESCE_USE_CQE_MODE_TX, flag, 0},
		{"cqe-mode-rx", unix.ETHTOOL_A_COALESCE_USE_CQE_MODE_RX, flag, 0},
		{"tx-aggr-max-bytes", coalesceAggrMaxBytes, number, 0},
		{"tx-aggr-max-frames", coalesceAggrMaxBytes + 1, number, 0},
		{"tx-aggr-time-usecs", coalesceAggrMaxBytes + 2, number, 0},
	},
	rounds: coalesceMatches, queues: true,
	chosenBy: map[string]string{"rx-usecs": "adaptive-rx", "rx-frames": "adaptive-rx", "tx-usecs": "adaptive-tx", "tx-frames": "adaptive-tx"},
}

// coalesceMatches tells whether a driver may make found of asked: it counts in steps
// of two microseconds, or keeps interrupts a second instead.
func coalesceMatches(_ string, asked, found int) bool {
	const second = 1_000_000
	return asked > 0 && found > 0 && (found == asked&^1 || asked <= second && found == second/(second/asked))
}
