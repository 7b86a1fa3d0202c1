package bpf_test

import (
	"bytes"
	"encoding/binary"
)

// forward is an IP packet behind a router that may translate it.
func forward(ip []byte, h header, from, to tuple, into bool) []byte {
	ip = translated(ip, h, from, to, into)
	ip[8]--
	sum := uint32(binary.BigEndian.Uint16(ip[10:])) + 0x100
	if sum >= 0xffff { // as the kernel's ip_decrease_ttl
		sum++
	}
	binary.BigEndian.PutUint16(ip[10:], uint16(sum))
	return ip
}

// translated is an IP packet with other ends, if they are others.
func translated(ip []byte, h header, from, to tuple, into bool) []byte {
	ip = bytes.Clone(ip)
	if from != to {
		check := ip[26:28]
		if h.protocol == 6 {
			check = ip[36:38]
		}
		local, remote := 0, 4
		if into {
			local, remote = 4, 0
		}
		for _, part := range []struct {
			of      []byte // of the checksums that the change is in
			at      int
			changed bool
		}{{to[:8], 12, !bytes.Equal(from[:8], to[:8])}, {to[8:], 20, !bytes.Equal(from[8:], to[8:])}} {
			n := len(part.of) / 2
			was := bytes.Clone(ip[part.at : part.at+2*n])
			copy(ip[part.at+local*n/4:][:n], part.of[:n])
			copy(ip[part.at+remote*n/4:][:n], part.of[n:])
			if !part.changed {
				continue
			}
			is := ip[part.at : part.at+2*n]
			if h.protocol == 6 || check[0]|check[1] != 0 {
				replace(check, was, is)
				if h.protocol == 17 && check[0]|check[1] == 0 {
					check[0], check[1] = 0xff, 0xff
				}
			}
			if part.at == 12 {
				replace(ip[10:12], was, is)
			}
		}
	}
	return ip
}

// replace updates a checksum for bytes that were replaced (RFC 1624).
func replace(check, was, is []byte) {
	total := uint32(0xffff) + uint32(^binary.BigEndian.Uint16(check))
	for i := 0; i < len(was); i += 2 {
		total += uint32(^binary.BigEndian.Uint16(was[i:])) + uint32(binary.BigEndian.Uint16(is[i:]))
	}
	for total > 0xffff {
		total = total&0xffff + total>>16
	}
	binary.BigEndian.PutUint16(check, ^uint16(total))
}

// words is the sum of the words of a header, as checksums add them.
func words(b []byte) uint16 {
	total := uint32(0)
	for i := 0; i < len(b); i += 2 {
		total += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for total > 0xffff {
		total = total&0xffff + total>>16
	}
	return uint16(total)
}
