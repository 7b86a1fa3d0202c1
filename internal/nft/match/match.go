// Package match makes the matches of nftables that several writers of rules need. Rules
// made of them use one register.
package match

import (
	"encoding/binary"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Register is the register that is loaded and compared.
const Register = 1

// Equal compares the register with data.
func Equal(data []byte) expr.Any {
	return &expr.Cmp{Register: Register, Op: expr.CmpOpEq, Data: data}
}

// Protocol matches a transport protocol, IPPROTO_*.
func Protocol(number byte) []expr.Any {
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: Register}, Equal([]byte{number})}
}

// TCP matches TCP.
func TCP() []expr.Any { return Protocol(unix.IPPROTO_TCP) }

// UDP matches UDP.
func UDP() []expr.Any { return Protocol(unix.IPPROTO_UDP) }

// Dport matches the destination port; the rule must match the protocol before.
func Dport(port uint16) []expr.Any {
	return []expr.Any{
		&expr.Payload{DestRegister: Register, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		Equal(binary.BigEndian.AppendUint16(nil, port)),
	}
}
