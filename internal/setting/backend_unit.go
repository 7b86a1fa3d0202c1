package setting

import "fmt"

// unitBackend is whether a service runs: "active" or "inactive". A key is the name
// of its unit.
func unitBackend() Backend {
	return Backend{
		Name:      "unit",
		Installed: true,
		Read: func(s Setting) (Value, error) {
			u, err := ReadUnit(s.Key)
			if err != nil {
				return Value{}, err
			}
			if u.Active {
				return Text("active"), nil
			}
			return Text("inactive"), nil
		},
		Write: func(s Setting, v Value) error {
			verb, ok := map[string]string{"active": "start", "inactive": "stop"}[v.String()]
			if !ok {
				return fmt.Errorf("no service can be made %q", v)
			}
			_, err := systemctl(verb, "--", s.Key)
			return err
		},
	}
}
