package host

import (
	"strings"
	"time"

	"github.com/klauspost/cpuid/v2"
)

// tcg is what an emulated CPU answers to who asks for its hypervisor.
const tcg = "TCGTCGTCGTCG"

// emulated tells whether QEMU carries out the CPU's instructions in software
// (TCG). The CPU says so where it can be asked, whatever it is called; elsewhere
// the name that QEMU gives to the one it would choose by itself does.
func (r Reader) emulated(c cpuinfo) bool {
	if r.Root == "" && Emulated() {
		return true
	}
	return strings.HasPrefix(c.model, "QEMU TCG CPU")
}

// emulationFactor is by how much longer an emulated CPU takes than a real one, roughly
// and at worst.
const emulationFactor = 10

// Emulated tells whether the CPU of this machine is emulated, as far as the CPU
// says it.
func Emulated() bool { return cpuid.CPU.HypervisorVendorString == tcg }

// ScaleTimeout is how long to wait, on this machine, for what takes no longer than
// limit on any real one.
func ScaleTimeout(limit time.Duration) time.Duration {
	if Emulated() {
		return emulationFactor * limit
	}
	return limit
}
