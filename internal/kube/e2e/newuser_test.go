package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/testenv"
	"github.com/venturi-net/venturi/internal/testenv/clustertest"
	"github.com/venturi-net/venturi/result"
)

// shownCommands are those of the first block of the page, which leads from nothing to a table and to
// nothing again.
func shownCommands(t *testing.T) (lines []string) {
	t.Helper()
	text, err := os.ReadFile("../../../docs/kubernetes.md")
	testenv.Must(t, err)
	_, block, _ := strings.Cut(string(text), "```sh\n")
	block, _, _ = strings.Cut(block, "```")
	for line := range strings.Lines(block) {
		line, _, _ = strings.Cut(line, "  #")
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines
}

// A new user types what the page shows, with the rights that it prints and nothing else, and with
// all defaults. The cluster has no registry: its nodes have the image that `make image` wrote.
func TestClusterNewUser(t *testing.T) {
	p := newPlugin(t)
	source, err := filepath.Abs("../../..")
	testenv.Must(t, err)
	bin := t.TempDir()
	if _, err := exec.LookPath("kubectl"); err != nil { // then as much of it as finds plugins
		testenv.Must(t, os.WriteFile(filepath.Join(bin, "kubectl"), []byte("#!/bin/sh\nplugin=$1\nshift\nexec \"kubectl-$plugin\" \"$@\"\n"), 0o755))
	}
	_, roles := p.run("rbac", "--node-agents", "--user", "nora")
	environ := append(os.Environ(), "KUBECONFIG="+p.asUser(t, "nora", roles), "PATH="+bin+":"+os.Getenv("PATH"))
	run := func(folder, line string) (said string, took time.Duration) {
		t.Helper()
		began := time.Now()
		cmd := exec.Command("sh", "-c", line)
		cmd.Dir, cmd.Env = folder, environ
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
		return string(out), time.Since(began)
	}

	lines := shownCommands(t)
	if len(lines) != 5 {
		t.Fatalf("the page shows %q", lines)
	}
	makeImage, push, link, compare, cleanup := lines[0], lines[1], lines[2], lines[3], lines[4]
	const image = "registry.example/venturi:1"
	if makeImage != "make image IMAGE="+image || !strings.Contains(push, "docker load -i dist/venturi-image.tar") || !strings.HasSuffix(push, "docker push "+image) {
		t.Errorf("the image is built and pushed by %q and %q", makeImage, push)
	}
	run(source, "test -s dist/venturi-image.tar && "+strings.ReplaceAll(strings.TrimPrefix(link, "sudo "), "/usr/local/bin", bin))
	said, took := run(p.folder, strings.ReplaceAll(compare, image, clustertest.VenturiImage))
	t.Logf("from the kubeconfig to the verdict, by %q: %v; on an idle machine the limit is 90 s\n%s", compare, took.Round(100*time.Millisecond), said)
	p.nothingLeft(t, 0, everything...)
	checkVerdicts(t, filepath.Join(p.folder, "venturi-runs"))
	if said, _ := run(p.folder, cleanup); !strings.Contains(said, "there is nothing to remove") {
		t.Errorf("%s: %s", cleanup, said)
	}
}

// checkVerdicts wants the one record in a folder to have an interval over its series for every path
// and load. A busy machine has no time for all series.
func checkVerdicts(t *testing.T, folder string) {
	t.Helper()
	runs, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil || len(runs) != 1 {
		t.Fatalf("records: %v, %v", runs, err)
	}
	rec, err := result.Open(runs[0])
	testenv.Must(t, err)
	if rec.End == nil || rec.End.Reason != result.Complete && rec.End.Reason != result.OutOfBudget {
		t.Fatalf("the run ended with %+v", rec.End)
	}
	t.Logf("%d of %d series of %d rounds took %v", rec.End.Series, rec.Plan.Series, rec.Plan.Rounds, rec.End.Took.Round(100*time.Millisecond))
	sum, err := analysis.Analyze(rec, analysis.Options{})
	testenv.Must(t, err)
	for _, c := range sum.Cells {
		var paths []string
		for _, row := range c.Rows {
			paths = append(paths, row.Arm.Name)
			if row.Arm.Name != c.Baseline && (row.Ratio == nil || row.Ratio.Open || row.Ratio.WithinSeries) {
				t.Errorf("%s, %s: %+v", c.Cell.Name, row.Arm.Name, row.Ratio)
			}
		}
		if !slices.Equal(paths, []string{"host", "pod", "pod-local", "service", "nodeport"}) {
			t.Errorf("%s has the paths %v", c.Cell.Name, paths)
		}
	}
	if len(sum.Cells) != 4 {
		t.Errorf("%d loads", len(sum.Cells))
	}
}
