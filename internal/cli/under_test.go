package cli

import (
	"errors"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/verr"
)

func TestHowItFinishedInside(t *testing.T) {
	for code, want := range map[int]struct {
		code int
		says string // empty: what runs inside has said it
	}{
		0: {code: verr.OK}, 7: {code: 7}, 130: {code: 130},
		137: {verr.Failed, "signal 9 (killed) in the virtual machine, as happens when memory runs out"},
		139: {verr.Failed, "signal 11 (segmentation fault)"},
	} {
		err := finished(code)
		e := ended(verr.OK)
		if errors.As(err, &e) {
			if int(e) != want.code || want.says != "" {
				t.Errorf("%d: ended with %d, want %+v", code, e, want)
			}
			continue
		}
		if verr.Code(err) != want.code || err != nil && (want.says == "" || !strings.Contains(err.Error(), want.says)) {
			t.Errorf("%d: %v, want %+v", code, err, want)
		}
	}
}
