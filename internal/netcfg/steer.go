package netcfg

import (
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"strings"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/sanitize"
)

// ErrNoRPS tells that a kernel cannot steer what a device receives.
var ErrNoRPS = errors.New("the kernel has no RPS")

// SteerReceive lets the cores carry what a device receives, by RPS: each flow, as its addresses
// and ports tell it, has one of them.
func (n *Namespace) SteerReceive(device string, cpus []int) error {
	mask := cpuMask(cpus)
	return n.Do(func() error {
		return host.Sysfs(func(root string) error {
			queues, err := sanitize.Files(filepath.Join(root, "class/net", device), "queues/rx-*/rps_cpus")
			if err == nil && len(queues) == 0 {
				err = ErrNoRPS
			}
			for _, file := range queues {
				if err == nil {
					err = os.WriteFile(file, []byte(mask), 0)
				}
			}
			return n.Wrap("steer what "+device+" receives", err)
		})
	})
}

// cpuMask writes cores as the kernel reads them: 32 bits a word, the highest first.
func cpuMask(cpus []int) string {
	mask := new(big.Int)
	for _, cpu := range cpus {
		mask.SetBit(mask, cpu, 1)
	}
	digits := mask.Text(16)
	digits = strings.Repeat("0", (8-len(digits)%8)%8) + digits
	var words []string
	for ; digits != ""; digits = digits[8:] {
		words = append(words, digits[:8])
	}
	return strings.Join(words, ",")
}
