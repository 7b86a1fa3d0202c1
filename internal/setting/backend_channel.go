package setting

import (
	"time"

	"golang.org/x/sys/unix"
)

var channels = fields{
	backendName: "channel", settle: time.Second, get: unix.ETHTOOL_MSG_CHANNELS_GET, set: unix.ETHTOOL_MSG_CHANNELS_SET,
	list: []field{
		{"rx", unix.ETHTOOL_A_CHANNELS_RX_COUNT, number, unix.ETHTOOL_A_CHANNELS_RX_MAX},
		{"tx", unix.ETHTOOL_A_CHANNELS_TX_COUNT, number, unix.ETHTOOL_A_CHANNELS_TX_MAX},
		{"other", unix.ETHTOOL_A_CHANNELS_OTHER_COUNT, number, unix.ETHTOOL_A_CHANNELS_OTHER_MAX},
		{"combined", unix.ETHTOOL_A_CHANNELS_COMBINED_COUNT, number, unix.ETHTOOL_A_CHANNELS_COMBINED_MAX},
	},
	disturbs: true, queues: true,
}
