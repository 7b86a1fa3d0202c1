package kernel

import (
	"sync"

	"github.com/cilium/ebpf/btf"
)

// CountsRedirected tells whether a pod's own device counts the packets that a program redirects into it
// (bpf_redirect_peer). Linux does so from 6.7 on, and in stable releases with the same patches. These also
// gave each device a type of statistics, which is what this looks for: a pod would have to receive
// something to find it out otherwise.
var CountsRedirected = sync.OnceValue(func() bool {
	types, err := btf.LoadKernelSpec()
	if err != nil {
		return false
	}
	_, err = types.AnyTypeByName("netdev_stat_type")
	return err == nil
})
