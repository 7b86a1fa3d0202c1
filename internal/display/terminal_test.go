package display

import "testing"

func TestNarrowUTF8(t *testing.T) {
	for _, c := range []struct {
		variables map[string]string
		want      bool
	}{
		{nil, false},
		{map[string]string{"LANG": "C"}, false},
		{map[string]string{"LANG": "C.UTF-8"}, true},
		{map[string]string{"LANG": "de_DE.utf8"}, true},
		{map[string]string{"LANG": "ja_JP.UTF-8"}, false},
		{map[string]string{"LANG": "ja_JP.UTF-8", "LC_CTYPE": "en_US.UTF-8"}, true},
		{map[string]string{"LANG": "en_US.UTF-8", "LC_ALL": "C"}, false},
		{map[string]string{"LANG": "en_US.ISO-8859-1"}, false},
		{map[string]string{"LANG": "x"}, false},
	} {
		if got := narrowUTF8(func(name string) string { return c.variables[name] }); got != c.want {
			t.Errorf("%v: %v", c.variables, got)
		}
	}
}

func TestUnicodeTakesATerminal(t *testing.T) {
	utf8 := func(string) string { return "C.UTF-8" }
	if DrawsUnicode(nil, utf8) {
		t.Error("what is no terminal draws bars")
	}
}
