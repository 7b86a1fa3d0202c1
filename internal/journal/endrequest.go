package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// A proof has the journal open for as long as it measures. Who would have to wait for that asks it to end, by a file
// beside the journal: an undo, "fastpath disable", and the end of "fastpath enable" and "fastpath shadow".

const endRequestName = "end-requested"

// RequestEnd asks whoever has the journal of a folder open to end soon. Those who have it only for
// a moment do not look. Whoever opens the journal next forgets it.
func RequestEnd(folder string) error {
	if folder == "" {
		folder = Folder
	}
	file, err := os.OpenFile(filepath.Join(folder, endRequestName), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("request the end of a proof: %w", err)
	}
	return file.Close()
}

// EndRequested tells whether somebody asked for that since the journal was opened.
func (j *Journal) EndRequested() bool {
	_, err := os.Lstat(filepath.Join(j.options.Folder, endRequestName))
	return err == nil
}

// forgetEndRequest removes what was asked of somebody who has ended.
func forgetEndRequest(folder string) error {
	err := os.Remove(filepath.Join(folder, endRequestName))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
