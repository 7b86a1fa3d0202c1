package setting

import (
	"path/filepath"

	"github.com/venturi-net/venturi/internal/host"
)

// sysctlBackend is /proc/sys of a namespace. A key is the file below it, with
// slashes.
func sysctlBackend() Backend {
	at := func(s Setting, fn func(file string) error) error {
		return s.Scope.Enter(func(string) error { return fn(filepath.Join("/proc/sys", s.Key)) })
	}
	return Backend{
		Name:       "sysctl",
		Read:       readLocated(at),
		Write:      writeLocated(at),
		Matches:    matchesText,
		Equivalent: equivalentText,
		// An algorithm that the machine's first namespace makes its own is allowed
		// to everybody from then on.
		SideEffects: func(s Setting) ([]Setting, error) {
			if s.Key != "net/ipv4/tcp_congestion_control" {
				return nil, nil
			}
			return []Setting{{Backend: s.Backend, Scope: s.Scope, Key: "net/ipv4/tcp_allowed_congestion_control"}}, nil
		},
	}
}

// Sysctl gives the setting of a sysctl, by its dotted name, in a namespace.
func Sysctl(in Scope, name string) Setting {
	return Setting{Backend: "sysctl", Scope: Scope{Netns: in.Netns}, Key: host.SysctlFile(name)}
}
