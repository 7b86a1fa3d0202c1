package testenv

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

// FloodFDB gives a bridge in a namespace entries for so many MACs, at a port in any state.
func FloodFDB(t testing.TB, namespace, port string, macs int) {
	t.Helper()
	var batch strings.Builder
	for n := range macs {
		fmt.Fprintf(&batch, "fdb add 02:00:%02x:%02x:%02x:%02x dev %s master static\n", n>>24, n>>16&0xff, n>>8&0xff, n&0xff, port)
	}
	InNetns(t, namespace, func() error {
		cmd := exec.Command("bridge", "-batch", "-")
		cmd.Stdin = strings.NewReader(batch.String())
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("add %d forwarding entries: %w: %.200s", macs, err, out)
		}
		return nil
	})
}
