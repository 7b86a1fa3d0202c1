package cli

import (
	"io"

	"github.com/pkg/browser"

	"github.com/venturi-net/venturi/internal/compare"
	"github.com/venturi-net/venturi/internal/report"
	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

// pageName is what the page of a run is called, beside its record.
const pageName = "report.html"

// openPage writes the page of a run beside its record, and shows it in the
// user's browser.
func openPage(env *Env, path string, rec *result.Record, opt view.Options) error {
	what := "cannot show the page of " + path
	file, err := compare.WriteBeside(path, pageName, func(w io.Writer) error { return report.Write(w, rec, opt) })
	if err != nil {
		return verr.Wrap(verr.Failed, what, err, "make the folder of the run writable, or print the page with --format html")
	}
	sanitize.Fprintln(env.Stdout, file)
	browser.Stdout, browser.Stderr = env.Stderr, env.Stderr
	if err := browser.OpenFile(file); err != nil {
		return verr.Wrap(verr.Failed, what, err, "open "+file+" in a browser, on another machine if this one has none")
	}
	return nil
}
