package setting

import "path/filepath"

// ipv6Backend is the settings of devices for IPv6, each found by the name that its
// device has today: the name that it had may be another one's by now. A key is
// the name of a setting.
func ipv6Backend() Backend {
	at := func(s Setting, fn func(file string) error) error {
		return onDevice(s.Scope, func(device string) error { return fn(filepath.Join("/proc/sys/net/ipv6/conf", device, s.Key)) })
	}
	return Backend{
		Name:       "ipv6",
		Read:       readLocated(at),
		Write:      writeLocated(at),
		Matches:    equivalentText,
		Equivalent: equivalentText,
	}
}

func ipv6MTU(scope Scope) Setting { return Setting{Backend: "ipv6", Scope: scope, Key: "mtu"} }
