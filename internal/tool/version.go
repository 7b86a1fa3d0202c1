package tool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/venturi-net/venturi/internal/sanitize"
)

// Version asks the program what it is, for the facts of a record: "qperf
// 0.4.11". It needs root, as Run does.
func (t *Tool) Version(ctx context.Context) (string, error) {
	if err := t.Installed(); err != nil {
		return "", err
	}
	p, err := start("", -1, []string{t.Name, cmp.Or(t.versionArg, "--version")})
	if err != nil {
		return "", fmt.Errorf("ask %s for its version: %w", t.Name, err)
	}
	defer p.stop()
	select {
	case <-p.done:
	case <-ctx.Done():
		return "", fmt.Errorf("ask %s for its version: %w", t.Name, ctx.Err())
	case <-time.After(5 * time.Second):
		return "", fmt.Errorf("ask %s for its version: no answer", t.Name)
	}
	line, _, _ := strings.Cut(strings.TrimSpace(p.out.String()), "\n")
	if line == "" {
		return "", fmt.Errorf("ask %s for its version: %w", t.Name, errors.Join(errors.New("it does not tell"), p.failure()))
	}
	return sanitize.Text(line), nil
}
