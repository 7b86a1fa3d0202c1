package setting

import (
	"errors"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Times of single queues are found, and what a driver chooses or does not tell is none.
func TestQueuesAlike(t *testing.T) {
	if size := unsafe.Sizeof(queueTimes{}); size != 23*4 {
		t.Fatalf("struct ethtool_coalesce has 92 bytes, not %d", size)
	}
	fixed := queueTimes{rx: 8, tx: 16, rxFrames: 32, txFrames: 64}
	chosen := queueTimes{rx: 8, tx: 16, chosenRX: 1, chosenTX: 1}
	for name, c := range map[string]struct {
		all    queueTimes
		queues []queueTimes
		want   string // part of the error; "": none
	}{
		"no queue tells":     {all: fixed},
		"all alike":          {all: fixed, queues: []queueTimes{fixed, fixed}},
		"no frames told":     {all: fixed, queues: []queueTimes{{rx: 8, tx: 16}}},
		"the last waits":     {all: fixed, queues: []queueTimes{fixed, {rx: 9, tx: 16, rxFrames: 32, txFrames: 64}}, want: "queue 1 was told to wait otherwise than the device (rx-usecs 9, not 8;"},
		"more frames":        {all: fixed, queues: []queueTimes{{rx: 8, tx: 16, rxFrames: 32, txFrames: 65}}, want: "tx-frames 65, not 64"},
		"chosen as it goes":  {all: chosen, queues: []queueTimes{{rx: 50, tx: 3, chosenRX: 1, chosenTX: 1}}},
		"one way not chosen": {all: chosen, queues: []queueTimes{{rx: 8, tx: 16, chosenRX: 1}}, want: "adaptive-tx 0, not 1"},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkUniform(c.all, func(queue int) (queueTimes, error) {
				if queue >= len(c.queues) {
					return queueTimes{}, unix.EINVAL
				}
				return c.queues[queue], nil
			})
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

// The kernel takes the request as it is laid out: a driver that knows no times of
// queues says so, and does not find a fault with it.
func TestQueueRequest(t *testing.T) {
	r := queueRequest{command: perQueue, inner: getCoalesce}
	r.queues[0] = 1
	if err := byIoctl("lo", unsafe.Pointer(&r)); !errors.Is(err, unix.EOPNOTSUPP) {
		t.Errorf("lo says %v", err)
	}
	if err := checkQueuesUniform("lo"); err != nil {
		t.Errorf("a device without such times: %v", err)
	}
}
