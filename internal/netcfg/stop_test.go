package netcfg

import (
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A process that not even a signal ends, as one that waits for a device, holds up nobody for ever.
func TestStopGivesUp(t *testing.T) {
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		c, began := &Child{Pid: cmd.Process.Pid, Done: make(chan struct{}), cmd: cmd}, time.Now()
		err := c.Stop(time.Second)
		if err == nil || !strings.Contains(err.Error(), "(true): still there") {
			t.Errorf("Stop = %v, want that it is still there", err)
		}
		if took := time.Since(began); took != time.Second+killLimit {
			t.Errorf("it took %v, want %v", took, time.Second+killLimit)
		}
	})
}
