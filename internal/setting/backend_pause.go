package setting

import (
	"time"

	"golang.org/x/sys/unix"
)

var pause = fields{
	backendName: "pause", get: unix.ETHTOOL_MSG_PAUSE_GET, set: unix.ETHTOOL_MSG_PAUSE_SET,
	list: []field{
		{"autoneg", unix.ETHTOOL_A_PAUSE_AUTONEG, flag, 0},
		{"rx", unix.ETHTOOL_A_PAUSE_RX, flag, 0},
		{"tx", unix.ETHTOOL_A_PAUSE_TX, flag, 0},
	},
	// Some drivers show what the two ends of the cable agree upon.
	lag: 5 * time.Second,
	// Many negotiate the link again, or make the device anew: it loses packets meanwhile, also after it
	// shows what was written.
	settle: time.Second,
}
