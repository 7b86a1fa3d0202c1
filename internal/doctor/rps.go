package doctor

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"

	"github.com/venturi-net/venturi/internal/host"
)

var rpsOneCPU = Rule{
	Facts: Facts{
		Code:     "rps-one-cpu",
		Title:    "Software sends all received packets of a device to one CPU",
		Severity: Warning,
		Looks:    "the RPS masks of all receive queues of a device: all name the same single CPU, on a host with several",
		Effect:   Impact{"one CPU limits everything that the device receives", "kernel documentation, networking/scaling", "C"},
		Knob:     "net.rps", Value: "off",
		Do: "or spread it over all CPUs: venturi knob set net.rps all --dev DEVICE",
	},
	Check: func(v *View) []Finding {
		if v.CPUs < 2 {
			return nil
		}
		return eachDevice(v, func(s *Netns, d *host.NetDevice) []Finding {
			cpu, one := onlyCPU(d.RPS)
			if !one {
				return nil
			}
			return []Finding{finding(s, d, Evidence{
				fmt.Sprintf("/sys/class/net/%s/queues/rx-*/rps_cpus", d.Name),
				fmt.Sprintf("%s on each of %d queues: CPU %d alone, of %d", d.RPS[0], len(d.RPS), cpu, v.CPUs)})}
		})
	},
}

// onlyCPU gives the one CPU that all masks name, if there is such a one.
func onlyCPU(masks []string) (cpu int, one bool) {
	cpu = -1
	for _, mask := range masks {
		n, single := singleCPU(mask)
		if !single || cpu >= 0 && n != cpu {
			return 0, false
		}
		cpu = n
	}
	return cpu, cpu >= 0
}

// singleCPU reads a mask, hexadecimal in groups of 32 bits, that names one CPU.
func singleCPU(mask string) (cpu int, single bool) {
	groups := strings.Split(mask, ",")
	set := 0
	for i, g := range groups {
		word, err := strconv.ParseUint(g, 16, 32)
		if err != nil {
			return 0, false
		}
		if word != 0 {
			cpu = 32*(len(groups)-1-i) + bits.TrailingZeros64(word)
		}
		set += bits.OnesCount64(word)
	}
	return cpu, set == 1
}
