package netcfg

import (
	"encoding/json"
	"os"
)

// ReplaceJSON replaces a file by v, for its user alone: who reads it gets either the
// old content or the new.
func ReplaceJSON(file string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	half := file + ".new"
	if err := os.WriteFile(half, text, 0o600); err != nil {
		return err
	}
	return os.Rename(half, file)
}
