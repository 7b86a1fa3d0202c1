package report

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/internal/testenv/plain"
)

// browserTime is how long a browser may take for a page, on a busy machine.
const browserTime = 2 * time.Minute

// checkScript runs in a page, and leaves in it what is wrong with the layout.
//
//go:embed testdata/layout.js
var checkScript string

// screenshots is where pictures of the pages go, for people.
var screenshots = flag.String("screenshots", "", "write pictures of the pages of TestBrowser into this folder")

// widths are those of a phone and of a desk, pixels.
var widths = []int{400, 1400}

// TestBrowser opens pages in a real browser: at the width of a phone and of a desk, light
// and dark, every figure is there, no text of it is cut or lies over another, the page is
// not wider than the window, nothing is fetched, and the console stays empty.
func TestBrowser(t *testing.T) {
	plain.NeedsLong(t)
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Skipf("there is no browser: %v (Debian: apt-get install chromium)", err)
	}
	for name, p := range pages(t) {
		var page bytes.Buffer
		if err := Write(&page, p.record, view.Options{Format: "html"}); err != nil {
			t.Fatal(err)
		}
		text := strings.Replace(page.String(), "</body>", "<script>"+checkScript+"</script></body>", 1)
		// A window has a least width, a frame has none.
		framed := `<!doctype html><meta charset="utf-8"><meta name="color-scheme" content="light dark"><body style="margin:0">`
		for _, width := range widths {
			framed += fmt.Sprintf(`<iframe width="%d" height="2000" frameborder="0" style="vertical-align:top" srcdoc="%s"></iframe>`, width, html.EscapeString(text))
		}
		b := browser{program: program, folder: t.TempDir(), name: name}
		if err := os.WriteFile(b.page(), []byte(framed), 0o644); err != nil {
			t.Fatal(err)
		}
		_, titles := drawings(t, p.record)
		for _, theme := range []string{"light", "dark"} {
			t.Run(name+"-"+theme, func(t *testing.T) { b.check(t, theme, titles) })
		}
	}
}

// browser opens one page.
type browser struct{ program, folder, name string }

func (b browser) page() string { return filepath.Join(b.folder, "page.html") }

// run opens the page. It returns what the browser prints and logs.
func (b browser) run(t *testing.T, theme string, height int, args ...string) (out, log string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), host.ScaleTimeout(browserTime))
	defer cancel()
	args = append(args, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--enable-logging=stderr", "--v=0",
		"--user-data-dir="+filepath.Join(b.folder, "profile"), fmt.Sprintf("--window-size=1840,%d", height), "--virtual-time-budget=2000")
	if theme == "dark" {
		args = append(args, "--blink-settings=preferredColorScheme=0")
	}
	cmd := exec.CommandContext(ctx, b.program, append(args, "file://"+b.page())...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		t.Fatalf("browser: %v\n%s", err, stderr.String())
	}
	return stdout.String(), stderr.String()
}

func (b browser) check(t *testing.T, theme string, titles []string) {
	out, log := b.run(t, theme, 2100, "--dump-dom")
	if found := regexp.MustCompile(`(?m)^.*CONSOLE.*$`).FindAllString(log, -1); found != nil {
		t.Errorf("the console has:\n%s", strings.Join(found, "\n"))
	}
	found := regexp.MustCompile(`(?s)<pre class="layout">(.*?)</pre>`).FindAllStringSubmatch(out, -1)
	if len(found) != len(widths) {
		t.Fatalf("the check has run in %d of %d frames; the browser said:\n%s", len(found), len(widths), log)
	}
	slices.SortFunc(found, func(a, b []string) int { return strings.Compare(b[1], a[1]) }) // 400 before 1400
	height := 0
	for i, width := range widths {
		var got struct {
			Dark           bool
			Width, Height  int
			Figures, Wrong []string
		}
		if err := json.Unmarshal([]byte(html.UnescapeString(found[i][1])), &got); err != nil {
			t.Fatal(err)
		}
		if got.Dark != (theme == "dark") || got.Width != width {
			t.Errorf("the page is shown %d px wide, dark: %v; want %d px, %s", got.Width, got.Dark, width, theme)
		}
		if diff := cmp.Diff(titles, got.Figures); diff != "" {
			t.Errorf("%d px: not the figures that should be shown:\n%s", width, diff)
		}
		for _, wrong := range got.Wrong {
			t.Errorf("%d px: %s", width, wrong)
		}
		height = max(height, got.Height)
	}
	if *screenshots != "" {
		b.run(t, theme, height, "--hide-scrollbars", "--screenshot="+filepath.Join(*screenshots, b.name+"-"+theme+".png"))
	}
}
