package bpf

import (
	"math/rand/v2"

	"github.com/cilium/ebpf"
)

// random gives the numbers, which a test may choose.
var random = rand.Uint64

// setSecrets sets the random numbers with which programs hash what others may choose, and gives those of src/packet.h.
func setSecrets(spec *ebpf.CollectionSpec) (secret []uint64, err error) {
	for _, name := range []string{"digest_secret", "secret"} {
		v := spec.Variables[name]
		if v == nil {
			continue // only programs of IPv6 have the first
		}
		secret = make([]uint64, v.Size()/8)
		for i := range secret {
			secret[i] = random()
		}
		if err := v.Set(secret); err != nil {
			return nil, err
		}
	}
	return secret, nil
}
