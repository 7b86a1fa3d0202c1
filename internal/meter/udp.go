package meter

// udpFields tell where datagrams ended.
var udpFields = []field{
	{"Udp:", "InDatagrams", "udp/in_datagrams"},
	{"Udp:", "OutDatagrams", "udp/out_datagrams"},
	{"Udp:", "NoPorts", "udp/no_port"},
	{"Udp:", "InErrors", "udp/in_errors"},
	{"Udp:", "RcvbufErrors", "udp/receive_buffer_full"},
	{"Udp:", "SndbufErrors", "udp/send_buffer_full"},
	{"Udp:", "InCsumErrors", "udp/checksum_errors"},
	{"Ip:", "ReasmFails", "udp/reassembly_fails"},
	{"Ip:", "FragCreates", "udp/fragments_made"},
}

// openUDP counts the namespaces of the arm's ends.
func openUDP(s Setup) (Sampler, error) {
	return openCounters(s, udpFields, "counts of the namespaces of the arm's ends", "snmp")
}
