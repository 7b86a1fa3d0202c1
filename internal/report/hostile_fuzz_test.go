package report

import (
	"bytes"
	"encoding/csv"
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/analysis/recordtest"
	"github.com/venturi-net/venturi/internal/report/chart"
	"github.com/venturi-net/venturi/internal/report/figure"
	"github.com/venturi-net/venturi/internal/report/reporttest"
	"github.com/venturi-net/venturi/internal/report/view"
	"github.com/venturi-net/venturi/internal/testenv/plain"
	"github.com/venturi-net/venturi/result"
)

// hostileTexts are what a device, a path or an error may be called.
var hostileTexts = []string{
	plain.Hostile,
	"\x00\x07\x08\x0b\x0c\x1b\x7f\u0085\u009b", "\x1b[31mred\x1b[0m", "\x1b]8;;http://h\x1b\\link\x1b]8;;\x1b\\", "\x9b2J", // terminals
	"\u202eevil\u202c", "\u2066\u2067\u2068\u2069\u200f\u061c", "a\u200b\u200d\ufeff\u00adb", "\u2028\u2029", "\U000e0041", // what is not shown
	"</text></svg><script>alert(1)</script>", `"><img src=x onerror=alert(1)>`, "<!--", "]]>", "<![CDATA[", "&lt;b&gt;", "&#x3c;script>", "</style><script>", "<a href=javascript:alert(1)>", "{{.}}", "${x}",
	"|a|b|\n|-|-|\n", "# heading", "> quote", "- item", "1. item", "![x](http://h/p)", "[x][y]", "`code`", "<b>", "www.h.example", "$x$", `\`, "~~~",
	"=1+1", "+1", "-1+cmd|' /C calc'!A0", "@SUM(1)", "\t=1", " =1", "＝1", "\r\n=1", `a","b`, `"`, ";=1",
	"\xff\xfe", "", " ", strings.Repeat("long ", 400), "e\u0301", "漢字", "👩‍👩‍👧",
}

// fuzzTexts holds the reports of a record whose texts begin with whatever comes.
func fuzzTexts(f *testing.F, check func(t *testing.T, rec *result.Record)) {
	for _, s := range hostileTexts {
		f.Add(s)
	}
	truth := reporttest.Small(recordtest.UDPLat, recordtest.TCPBw)
	truth.Series, truth.Rounds = 3, 2
	histogram := recordtest.Make(truth).Slices[0].Latency.RTT // they take long to make
	truth.Histograms = false
	f.Fuzz(func(t *testing.T, text string) {
		truth := truth
		truth.Arms = append(slices.Clone(truth.Arms), recordtest.Arm{Arm: result.Arm{Name: "gre", Path: "gre"}, Fails: text + "down"})
		rec := recordtest.Make(truth)
		recordtest.AddThreads(rec, "vxlan", 0.97)
		for i := range rec.Slices {
			if l := rec.Slices[i].Latency; l != nil {
				l.RTT = histogram
			}
		}
		rec.Warnings = []result.Warning{{Code: "arm-failed", Text: "text", Arm: "vxlan", Cell: "cell"}, {Code: "other", Text: "text"}}
		rec.End = &result.End{Reason: result.Failed, Error: "error", Series: 3, Slices: len(rec.Slices)}
		plain.TaintWith(text, rec, "Format", "Role", "Transport", "Load", "Metric", "Code", "Reason", "Failed", "RTT", "Lateness", "Meters")
		for i := range rec.Meters {
			m := &rec.Meters[i]
			plain.TaintWith(text, m, "Name", "Values")
			if m.Name == "threads" {
				plain.TaintWith(text, m.Values)
			}
		}
		check(t, rec)
	})
}

// cleanReport is a report as text that can be shown.
func cleanReport(t *testing.T, rec *result.Record, opt view.Options) string {
	t.Helper()
	var out bytes.Buffer
	if err := Write(&out, rec, opt); err != nil {
		t.Fatal(err)
	}
	if err := plain.Unclean(out.String()); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// FuzzTable: no text drives a terminal.
func FuzzTable(f *testing.F) {
	fuzzTexts(f, func(t *testing.T, rec *result.Record) {
		for _, opt := range []view.Options{{Width: 60}, {Width: 160, Bars: true, Verbose: true}, {Style: "qperf"}} {
			cleanReport(t, rec, opt)
		}
	})
}

// FuzzMarkdown: no text makes a link, an image or a tag, and each row of a table has as
// many cells as its head.
func FuzzMarkdown(f *testing.F) {
	fuzzTexts(f, func(t *testing.T, rec *result.Record) {
		out := cleanReport(t, rec, view.Options{Format: "md"})
		if found := reporttest.MarkdownMark(out); found != "" {
			t.Errorf("%q makes more than text", found)
		}
		cells := 0
		for line := range strings.Lines(out) {
			if !strings.HasPrefix(line, "|") {
				cells = 0
				continue
			}
			n := strings.Count(strings.NewReplacer(`\\`, "", `\|`, "").Replace(line), "|")
			if cells > 0 && n != cells {
				t.Errorf("a row of %d cells in a table of %d: %q", n-1, cells-1, line)
			}
			cells = n
		}
	})
}

// FuzzCSV: no text is a formula, or ends its field.
func FuzzCSV(f *testing.F) {
	fuzzTexts(f, func(t *testing.T, rec *result.Record) {
		rows, err := csv.NewReader(strings.NewReader(cleanReport(t, rec, view.Options{Format: "csv"}))).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			for _, field := range row {
				if reporttest.IsFormula(field) {
					t.Errorf("a formula: %q", field)
				}
			}
		}
	})
}

// Elements and attributes that pages and figures are made of.
var (
	pageElements   = strings.Fields("html head meta link title style body main h1 h2 h3 p ul ol li section div table thead tbody tr th td dl dt dd code")
	figureElements = strings.Fields("svg title desc style g rect line path circle text")
	attributes     = strings.Fields("lang charset name content rel href class xmlns viewbox width height role x y dx dy x1 x2 y1 y2 cx cy r d")
)

// FuzzHTML: no text becomes an element or an attribute of a page.
func FuzzHTML(f *testing.F) {
	fuzzTexts(f, func(t *testing.T, rec *result.Record) {
		in := html.NewTokenizer(strings.NewReader(cleanReport(t, rec, view.Options{Format: "html"})))
		for {
			switch in.Next() {
			case html.ErrorToken:
				if err := in.Err(); !errors.Is(err, io.EOF) {
					t.Fatal(err)
				}
				return
			case html.CommentToken:
				t.Error("a comment")
			case html.StartTagToken, html.SelfClosingTagToken:
				token := in.Token()
				if !slices.Contains(pageElements, token.Data) && !slices.Contains(figureElements, token.Data) {
					t.Errorf("an element %q", token.Data)
				}
				for _, a := range token.Attr {
					if !slices.Contains(attributes, a.Key) || a.Key == "href" && a.Val != "data:," {
						t.Errorf("an attribute %s=%q of %s", a.Key, a.Val, token.Data)
					}
				}
			}
		}
	})
}

// FuzzSVG: no text becomes an element or an attribute of a figure.
func FuzzSVG(f *testing.F) {
	fuzzTexts(f, func(t *testing.T, rec *result.Record) {
		s, err := analysis.Analyze(rec, analysis.Options{})
		if err != nil {
			t.Fatal(err)
		}
		drawings := figure.Drawings(rec, s, "")
		if len(drawings) < 5 {
			t.Errorf("%d figures, want ratios, latency, cpu, threads and time at least", len(drawings))
		}
		for _, d := range drawings {
			var out bytes.Buffer
			if err := d.Chart.Draw(&out, chart.Sheet{Width: 400, Standalone: true, Notes: view.Banners(rec, s)}); err != nil {
				t.Fatal(err)
			}
			if err := plain.Unclean(out.String()); err != nil {
				t.Fatal(err)
			}
			checkSVG(t, &out)
		}
	})
}

func checkSVG(t *testing.T, svg io.Reader) {
	t.Helper()
	in := xml.NewDecoder(svg)
	for {
		token, err := in.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		switch e := token.(type) {
		case xml.Comment, xml.ProcInst, xml.Directive:
			t.Errorf("no element: %v", e)
		case xml.StartElement:
			if !slices.Contains(figureElements, e.Name.Local) {
				t.Errorf("an element %q", e.Name.Local)
			}
			for _, a := range e.Attr {
				if !slices.Contains(attributes, strings.ToLower(a.Name.Local)) {
					t.Errorf("an attribute %s=%q of %s", a.Name.Local, a.Value, e.Name.Local)
				}
			}
		}
	}
}
