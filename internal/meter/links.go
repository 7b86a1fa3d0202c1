package meter

import (
	"bytes"
	"fmt"
)

// linkKeys are columns of /proc/net/dev, summed over all devices of the
// namespaces that an arm crosses. The loopback is left out: nothing that is
// measured here passes it.
var linkKeys = []string{"links/rx_errors", "links/rx_dropped", "links/tx_errors", "links/tx_dropped"}

// linkColumns are the places of linkKeys among the 16 columns after the name.
var linkColumns = [...]int{2, 3, 10, 11}

const linkWidth = 16

type links struct{ armFiles }

func openLinks(s Setup) (Sampler, error) {
	files, err := openArmFiles(s, func(a Arm) []string { return a.Crossed }, "dev")
	if err != nil {
		return nil, err
	}
	return &links{files}, nil
}

func (m *links) Keys() []string { return linkKeys }

func (m *links) Resolution() string {
	return "counts of all devices, loopback left out, in the namespaces that the arm crosses"
}

func (m *links) Sample(arm int, dst []int64) error { return m.sum(arm, dst, addDevices) }

// addDevices adds the wanted columns of each device line; the two lines before
// them are headings.
func addDevices(b []byte, dst []int64) error {
	_, b = line(b)
	_, b = line(b)
	for len(b) > 0 {
		var l []byte
		l, b = line(b)
		colon := bytes.LastIndexByte(l, ':') // a name may hold one, a number cannot
		if colon < 0 {
			return fmt.Errorf("line %.40q names no device", l)
		}
		if string(bytes.TrimLeft(l[:colon], " ")) == "lo" {
			continue
		}
		rest := l[colon+1:]
		for col, want := 0, 0; col < linkWidth; col++ {
			v, next, ok := number(rest)
			if !ok {
				return fmt.Errorf("line %.40q has %d columns, not %d", l, col, linkWidth)
			}
			rest = next
			if want < len(linkColumns) && linkColumns[want] == col {
				dst[want] += v
				want++
			}
		}
	}
	return nil
}
