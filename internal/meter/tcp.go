package meter

// tcpFields tell whether TCP had to repair: what a clean path shows is 0 in
// all but the segment counts.
var tcpFields = []field{
	{"Tcp:", "InSegs", "tcp/in_segments"},
	{"Tcp:", "OutSegs", "tcp/out_segments"},
	{"Tcp:", "RetransSegs", "tcp/retransmits"},
	{"Tcp:", "InErrs", "tcp/in_errors"},
	{"Tcp:", "InCsumErrors", "tcp/checksum_errors"},
	{"TcpExt:", "TCPTimeouts", "tcp/timeouts"},
	{"TcpExt:", "TCPFastRetrans", "tcp/fast_retransmits"},
	{"TcpExt:", "TCPSlowStartRetrans", "tcp/slow_start_retransmits"},
	{"TcpExt:", "TCPLossProbes", "tcp/loss_probes"},
	{"TcpExt:", "TCPSpuriousRTOs", "tcp/spurious_timeouts"},
	{"TcpExt:", "TCPRcvQDrop", "tcp/receive_queue_drops"},
	{"TcpExt:", "TCPBacklogDrop", "tcp/backlog_drops"},
	{"TcpExt:", "TCPOFOQueue", "tcp/out_of_order"},
	{"TcpExt:", "TCPDelivered", "tcp/delivered"},
}

// openTCP counts the namespaces of the arm's ends.
func openTCP(s Setup) (Sampler, error) {
	return openCounters(s, tcpFields, "counts of the namespaces of the arm's ends", "snmp", "netstat")
}
