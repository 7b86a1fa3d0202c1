package topology

import "encoding/json"

// UnmarshalJSON also reads the files of daemons that wrote the fields by their names in Go. Of all but one,
// only the case of letters has changed since, which does not matter.
func (n *DeviceNames) UnmarshalJSON(text []byte) error {
	type names DeviceNames
	was := struct {
		*names
		GenevePort *int `json:"GenevePort"`
	}{(*names)(n), nil}
	if err := json.Unmarshal(text, &was); err != nil {
		return err
	}
	if was.GenevePort != nil {
		n.GenevePort = *was.GenevePort
	}
	return nil
}
