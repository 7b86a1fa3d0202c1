package knob

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/setting"
)

// maskWord is how many cores a word of a mask is for.
const maskWord = 32

// ParseMask reads the kernel's "3,00000001" as "0,32-33".
func ParseMask(mask string) (string, error) {
	words := strings.Split(strings.TrimSpace(mask), ",")
	var on []int
	for i := range words {
		word, err := strconv.ParseUint(words[len(words)-1-i], 16, maskWord)
		if err != nil {
			return "", fmt.Errorf("read mask of cores %q: %w", mask, err)
		}
		for bit := range maskWord {
			if word>>bit&1 == 1 {
				on = append(on, i*maskWord+bit)
			}
		}
	}
	if len(on) == 0 {
		return "none", nil
	}
	return host.FormatNumbers(on), nil
}

// FormatMask is the other way round.
func FormatMask(list string) (string, error) {
	numbers, err := host.ParseNumbers(list)
	if err != nil {
		return "", err
	}
	words := []uint32{0}
	for _, core := range numbers {
		for len(words) <= core/maskWord {
			words = append(words, 0)
		}
		words[core/maskWord] |= 1 << (core % maskWord)
	}
	text := strconv.FormatUint(uint64(words[len(words)-1]), 16)
	for i := len(words) - 2; i >= 0; i-- {
		text += fmt.Sprintf(",%08x", words[i])
	}
	return text, nil
}

// OnlineCores lists the cores that are on; none if that cannot be read.
func OnlineCores(m Machine) []int { return coreList(m, "online") }

// SharedCores lists the cores that are on and that the boot line keeps for nobody: it
// isolates some (isolcpus), or has some run without ticks (nohz_full).
func SharedCores(m Machine) []int {
	kept := append(coreList(m, "isolated"), coreList(m, "nohz_full")...)
	return slices.DeleteFunc(OnlineCores(m), func(core int) bool { return slices.Contains(kept, core) })
}

// coreList reads one of the kernel's lists of cores; none if that cannot be read, or is
// " (null)", as nohz_full is where it was not asked for.
func coreList(m Machine, file string) []int {
	v, err := m.Settings.Read(setting.Setting{Backend: "kernel", Key: "/sys/devices/system/cpu/" + file})
	if err != nil {
		return nil
	}
	cores, err := host.ParseNumbers(strings.TrimSpace(v.String()))
	if err != nil {
		return nil
	}
	return cores
}

// CoreCount is how many cores the machine can have, by their highest number; 0
// if that cannot be read.
func CoreCount(m Machine) int {
	on := OnlineCores(m)
	if len(on) == 0 {
		return 0
	}
	return on[len(on)-1] + 1
}
