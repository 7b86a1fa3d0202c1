/* Parses what is behind an IP header, of either version. */
#pragma once

/* Parses the header of TCP or UDP. p->ip_len is the length of the packet. Returns 0, or the reason for which
 * the packet takes the slow path. */
static __always_inline int parse_transport(__u8 protocol, const __u8 *transport, const void *end, enum direction dir, struct parsed *p, __u32 *ports)
{
	p->flags = 0;
	p->headers = IP_LEN + UDP_LEN;
	if (protocol == IPPROTO_TCP) {
		if ((const void *)transport + TCP_LEN > end)
			return SLOW_NOT_IPV4;
		p->flags = (transport[TCP_FLAGS] ^ TCP_ACK) & (TCP_FIN | TCP_SYN | TCP_RST | TCP_ACK);
		p->headers = IP_LEN + (transport[TCP_OFFSET] >> 4) * 4;
		if (p->headers < IP_LEN + TCP_LEN)
			return SLOW_SIZE;
	} else if (protocol != IPPROTO_UDP) {
		return SLOW_PROTOCOL;
	} else if (((const struct udphdr *)transport)->len != bpf_htons(p->ip_len - IP_LEN)) {
		return SLOW_SIZE;
	}
	if (p->ip_len < p->headers)
		return SLOW_SIZE;
	*ports = *(const __u32 *)transport;
	if (dir == IN)
		*ports = *ports >> 16 | *ports << 16;
	return 0;
}
