package setting

import (
	"fmt"
	"unsafe"
)

// Some cards let each queue wait for a time of its own (`ethtool -Q`). What is written
// for all of them makes them alike, and to make queues anew does so too: nothing could
// bring such times back. Commands and layouts are those of <linux/ethtool.h>; there is
// no message of netlink for it.
const (
	getCoalesce = 0x0e // ETHTOOL_GCOALESCE
	perQueue    = 0x4b // ETHTOOL_PERQUEUE
	mostQueues  = 4096 // MAX_NUM_QUEUE
)

// queueTimes is struct ethtool_coalesce.
type queueTimes struct {
	command            uint32
	rx, rxFrames       uint32 // microseconds, packets
	_                  [2]uint32
	tx, txFrames       uint32
	_                  [3]uint32
	chosenRX, chosenTX uint32 // 1: by the driver, as it goes
	_                  [11]uint32
}

// queueRequest is struct ethtool_per_queue_op with room for the answer of one queue.
type queueRequest struct {
	command, inner uint32
	queues         [mostQueues / 32]uint32 // a bit each
	times          queueTimes
}

// checkQueuesUniform is an error if a queue was told to wait otherwise than its device.
func checkQueuesUniform(device string) error {
	all := queueTimes{command: getCoalesce}
	if byIoctl(device, unsafe.Pointer(&all)) != nil {
		return nil // then its queues have no times either
	}
	return checkUniform(all, func(queue int) (queueTimes, error) {
		r := queueRequest{command: perQueue, inner: getCoalesce}
		r.queues[queue/32] = 1 << (queue % 32)
		err := byIoctl(device, unsafe.Pointer(&r))
		return r.times, err
	})
}

// checkUniform asks queue after queue, until there are no more, or at the first one where
// the driver knows no times of queues.
func checkUniform(all queueTimes, ask func(queue int) (queueTimes, error)) error {
	for queue := range mostQueues {
		times, err := ask(queue)
		if err != nil {
			return nil
		}
		if what := all.difference(times); what != "" {
			return fmt.Errorf("queue %d was told to wait otherwise than the device (%s; see `ethtool -Q`): that would be lost, and no undo could bring it back", queue, what)
		}
	}
	return nil
}

// difference says what of a queue is not as it is of its device; "": nothing. Times that the
// driver chooses are nobody's, and of frames some drivers tell nothing.
func (t queueTimes) difference(queue queueTimes) string {
	for _, c := range []struct {
		name       string
		all, queue uint32
		told       bool
	}{
		{"adaptive-rx", t.chosenRX, queue.chosenRX, true},
		{"adaptive-tx", t.chosenTX, queue.chosenTX, true},
		{"rx-usecs", t.rx, queue.rx, t.chosenRX == 0},
		{"tx-usecs", t.tx, queue.tx, t.chosenTX == 0},
		{"rx-frames", t.rxFrames, queue.rxFrames, t.chosenRX == 0 && queue.rxFrames != 0},
		{"tx-frames", t.txFrames, queue.txFrames, t.chosenTX == 0 && queue.txFrames != 0},
	} {
		if c.told && c.all != c.queue {
			return fmt.Sprintf("%s %d, not %d", c.name, c.queue, c.all)
		}
	}
	return ""
}
