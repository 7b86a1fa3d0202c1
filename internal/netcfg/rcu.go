package netcfg

import (
	"errors"
	"io/fs"
	"os"
	"strings"
)

// Of the whole host: whether every wait for an RCU grace period is as short as it can be
// (Documentation/ABI/testing/sysfs-kernel-rcu), and what records that it was not.
var (
	rcuExpedited = "/sys/kernel/rcu_expedited"
	rcuRecord    = "/run/venturi-rcu-expedited"
)

// ExpediteRCU shortens RCU grace periods, from 15 ms to 0.2 ms, until the function that it returns
// is called. The kernel waits for one, under the RTNL lock, whenever a program is attached to a
// device. Each CPU is interrupted for each, so it is for moments only. Several callers may
// overlap: the first that is done ends it for all. Where the host does not allow it, or has it
// always, it does nothing.
func ExpediteRCU() (restore func()) {
	_, recorded := os.Lstat(rcuRecord)
	was, err := os.ReadFile(rcuExpedited)
	if err != nil || recorded != nil && strings.TrimSpace(string(was)) != "0" {
		return func() {}
	}
	if err := os.WriteFile(rcuRecord, nil, 0o600); err != nil {
		return func() {}
	}
	if err := os.WriteFile(rcuExpedited, []byte("1"), 0); err != nil {
		_ = os.Remove(rcuRecord)
		return func() {}
	}
	return func() { _ = RestoreRCU() } // what is left is restored by the next that calls it
}

// RestoreRCU undoes [ExpediteRCU] for a process that was killed meanwhile.
func RestoreRCU() error {
	if _, err := os.Lstat(rcuRecord); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := os.WriteFile(rcuExpedited, []byte("0"), 0); err != nil {
		return err
	}
	if err := os.Remove(rcuRecord); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
