package netcfg

import (
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/sanitize"
)

// ErrNoRPS tells that a kernel cannot steer what a device receives, and ErrIsolated that it does not
// steer that to all of the cores that were asked for.
var (
	ErrNoRPS    = errors.New("the kernel has no RPS")
	ErrIsolated = errors.New("the kernel steers no packets to isolated cores")
)

// SteerReceive lets the cores carry what a device receives, by RPS: each flow, as its addresses
// and ports tell it, has one of them.
func (n *Namespace) SteerReceive(device string, cpus []int) error {
	return n.Do(func() error {
		return host.Sysfs(func(root string) error {
			queues, err := sanitize.Files(filepath.Join(root, "class/net", device), "queues/rx-*/rps_cpus")
			if err == nil && len(queues) == 0 {
				err = ErrNoRPS
			}
			for _, file := range queues {
				if err == nil {
					err = steer(file, cpus)
				}
			}
			return n.Wrap("steer what "+device+" receives", err)
		})
	})
}

// steer writes the cores of a queue, and reads them back: the kernel leaves isolated ones out, and
// refuses a mask of these alone.
func steer(file string, cpus []int) error {
	err := os.WriteFile(file, []byte(cpuMask(cpus)), 0)
	if errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("%w: to none of %s", ErrIsolated, host.FormatNumbers(cpus))
	}
	if err != nil {
		return err
	}
	taken, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if left := omitted(cpus, string(taken)); len(left) > 0 {
		return fmt.Errorf("%w: not to %s", ErrIsolated, host.FormatNumbers(left))
	}
	return nil
}

// omitted lists those of some cores that are not in a mask, as the kernel writes it.
func omitted(cpus []int, mask string) (left []int) {
	bits, ok := new(big.Int).SetString(strings.ReplaceAll(strings.TrimSpace(mask), ",", ""), 16)
	for _, cpu := range cpus {
		if !ok || bits.Bit(cpu) == 0 {
			left = append(left, cpu)
		}
	}
	return left
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
