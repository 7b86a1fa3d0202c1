package display

import (
	"cmp"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/term"

	"github.com/venturi-net/venturi/internal/vm"
)

// TerminalSize gives the size of a terminal; nil: it does not tell.
func TerminalSize(stream any) *vm.Size {
	width, height, err := term.GetSize(int(stream.(*os.File).Fd()))
	if err != nil {
		return nil
	}
	return &vm.Size{Rows: uint16(height), Columns: uint16(width)}
}

// Resized tells of new sizes of a terminal until stop is called.
func Resized(stream any) (sizes <-chan vm.Size, stop func()) {
	changed, told, done := make(chan os.Signal, 1), make(chan vm.Size), make(chan struct{})
	signal.Notify(changed, syscall.SIGWINCH)
	go func() {
		for {
			select {
			case <-done:
				return
			case <-changed:
			}
			if size := TerminalSize(stream); size != nil {
				select {
				case told <- *size:
				case <-done:
					return
				}
			}
		}
	}()
	return told, func() { signal.Stop(changed); close(done) }
}

// IsTerminal tells whether a stream of the process is a terminal.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// DrawsUnicode tells whether standard output is a terminal that shows every mark of a
// table one column wide: with UTF-8, and with a locale in which box-drawing marks are not
// wide. environment looks a variable up.
func DrawsUnicode(stdout any, environment func(string) string) bool {
	return TerminalWidth(stdout) > 0 && environment("TERM") != "dumb" && narrowUTF8(environment)
}

// narrowUTF8 judges the locale, of which the first variable that is set counts.
func narrowUTF8(environment func(string) string) bool {
	locale := strings.ToLower(cmp.Or(environment("LC_ALL"), environment("LC_CTYPE"), environment("LANG")))
	if wide := []string{"zh", "ja", "ko"}; slices.Contains(wide, locale[:min(2, len(locale))]) {
		return false
	}
	return strings.Contains(locale, "utf-8") || strings.Contains(locale, "utf8")
}

// TerminalWidth is the width of the terminal that standard output is, or 0.
func TerminalWidth(stdout any) int {
	f, ok := stdout.(interface{ Fd() uintptr })
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}
