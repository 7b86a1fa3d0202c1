package setting

import "fmt"

// unitFileBackend is whether a service starts with the machine: "enabled" or
// "disabled". A key is the name of its unit.
func unitFileBackend() Backend {
	return Backend{
		Name:       "unit-file",
		Persistent: true,
		Installed:  true,
		Read: func(s Setting) (Value, error) {
			u, err := ReadUnit(s.Key)
			return Text(u.Enabled), err
		},
		Write: func(s Setting, v Value) error {
			verb, ok := map[string]string{"enabled": "enable", "disabled": "disable"}[v.String()]
			if !ok {
				return fmt.Errorf("no service can be made %q", v)
			}
			_, err := systemctl(verb, "--", s.Key)
			return err
		},
	}
}
