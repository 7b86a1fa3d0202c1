package bench

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/feature"
	"github.com/venturi-net/venturi/internal/verify"
)

// encapsulations compares those that this kernel has devices for with VXLAN. They share a wire, whose
// packets pass the programs of all. Emulated CPUs have other ratios, so no guest stands in for a
// kernel without the devices.
func encapsulations(ctx context.Context, w io.Writer, h compare.Host, budget time.Duration, seed uint64) ([]verify.Requirement, error) {
	c := fastCompares[slices.IndexFunc(fastCompares, func(c fastCompare) bool { return c.name == "encapsulations" })]
	devices := map[string]feature.Need{"geneve+fast": feature.Geneve, "ipip+fast": feature.IPIP}
	c.paths = slices.DeleteFunc(slices.Clone(c.paths), func(path string) bool {
		device := devices[path]
		if device == nil {
			return false
		}
		answer, err := device.Ask()
		if answer != feature.Yes {
			fmt.Fprintf(w, "left out: %s: %v\n", path, err)
		}
		return answer != feature.Yes
	})
	fmt.Fprintln(w, "left out: VLAN: labs have none below routed+fast")
	if len(c.paths) == 1 {
		fmt.Fprintln(w, "nothing is compared: run it on a kernel with these devices, on a CPU that is not emulated")
		return nil, nil
	}
	s, err := c.measure(ctx, h, budget, seed)
	if err != nil {
		return nil, err
	}
	c.print(w, s)
	return slices.DeleteFunc(c.requirements(s), func(r verify.Requirement) bool {
		return !slices.ContainsFunc(c.paths, func(path string) bool { return strings.Contains(r.Text, ": "+path) })
	}), nil
}
