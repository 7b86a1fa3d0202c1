package testenv

import "testing"

// SurviveMessages feeds parsers messages that may be malformed: none of them may panic.
func SurviveMessages(t *testing.T, parsers map[string]func(message []byte), messages [][]byte) {
	t.Helper()
	for name, parse := range parsers {
		for _, m := range messages {
			func() {
				defer func() {
					if why := recover(); why != nil {
						t.Errorf("%s: %v: % x", name, why, m)
					}
				}()
				parse(m)
			}()
		}
	}
}
