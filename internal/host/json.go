package host

import (
	"encoding/json"
	"fmt"
	"os"
)

// ReadJSON reads a file into v. If there is no such file, the error wraps
// os.ErrNotExist; all errors name it.
func ReadJSON(file string, v any) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}
