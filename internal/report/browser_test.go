package report

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/internal/testenv"
)

// browserTime is how long a browser may take for a page, on a busy machine.
const browserTime = 2 * time.Minute

// checkScript runs in a page, and leaves in it what is wrong with the layout.
//
//go:embed testdata/layout.js
var checkScript string

// TestBrowser opens pages in a real browser: at the width of a phone and of a desk,
// light and dark, no text of a figure may be cut or lie over another, and the page
// must not be wider than the window.
func TestBrowser(t *testing.T) {
	testenv.NeedsLong(t)
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Skipf("there is no browser: %v (Debian: apt-get install chromium)", err)
	}
	for name, rec := range pages() {
		var page bytes.Buffer
		if err := Write(&page, rec, view.Options{Format: "html"}); err != nil {
			t.Fatal(err)
		}
		folder := t.TempDir()
		text := strings.Replace(page.String(), "</body>", "<script>"+checkScript+"</script></body>", 1)
		for _, width := range []int{400, 1400} {
			// A window has a least width, a frame has none.
			file := filepath.Join(folder, fmt.Sprintf("%d.html", width))
			framed := fmt.Sprintf(`<!doctype html><meta charset="utf-8"><meta name="color-scheme" content="light dark">`+
				`<iframe width="%d" height="2000" frameborder="0" srcdoc="%s"></iframe>`, width, html.EscapeString(text))
			if err := os.WriteFile(file, []byte(framed), 0o644); err != nil {
				t.Fatal(err)
			}
			for _, theme := range []string{"light", "dark"} {
				t.Run(fmt.Sprintf("%s-%d-%s", name, width, theme), func(t *testing.T) {
					checkLayout(t, program, file, width, theme)
				})
			}
		}
	}
}

func checkLayout(t *testing.T, program, file string, width int, theme string) {
	ctx, cancel := context.WithTimeout(t.Context(), browserTime)
	defer cancel()
	args := []string{"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--enable-logging=stderr", "--v=0",
		"--user-data-dir=" + filepath.Join(filepath.Dir(file), "profile"), "--window-size=1600,2100", "--virtual-time-budget=2000", "--dump-dom"}
	if theme == "dark" {
		args = append(args, "--blink-settings=preferredColorScheme=0")
	}
	cmd := exec.CommandContext(ctx, program, append(args, "file://"+file)...)
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		t.Fatalf("browser: %v\n%s", err, log.String())
	}
	if found := regexp.MustCompile(`(?m)^.*CONSOLE.*$`).FindAllString(log.String(), -1); found != nil {
		t.Errorf("the console has:\n%s", strings.Join(found, "\n"))
	}
	found := regexp.MustCompile(`(?s)<pre id="layout">(.*?)</pre>`).FindStringSubmatch(out.String())
	if found == nil {
		t.Fatalf("the check has not run; the browser said:\n%s", log.String())
	}
	report := html.UnescapeString(found[1])
	if want := fmt.Sprintf("%s %d", theme, width); !strings.HasPrefix(report, want+" ") {
		t.Errorf("not what was asked for, %q: %q", want, strings.SplitN(report, "\n", 2)[0])
	}
	if _, wrong, _ := strings.Cut(report, "\n"); wrong != "" {
		t.Errorf("layout:\n%s", wrong)
	}
}
