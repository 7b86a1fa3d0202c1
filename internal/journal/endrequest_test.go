package journal

import (
	"testing"
)

// What was asked of whoever has the journal is not asked of the next one.
func TestEndRequest(t *testing.T) {
	o := Options{Folder: t.TempDir()}
	for range 2 {
		j, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		if j.EndRequested() {
			t.Error("its end is requested, before anybody did")
		}
		if err := RequestEnd(o.Folder); err != nil {
			t.Fatal(err)
		}
		if !j.EndRequested() {
			t.Error("its end is not requested")
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
