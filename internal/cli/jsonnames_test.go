package cli

import (
	"encoding"
	"encoding/json"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/venturi-net/venturi/internal/analysis"
	"github.com/venturi-net/venturi/internal/display"
	"github.com/venturi-net/venturi/internal/doctor"
	doctorcluster "github.com/venturi-net/venturi/internal/doctor/cluster"
	"github.com/venturi-net/venturi/internal/fastpath/discover"
	"github.com/venturi-net/venturi/internal/fastpath/shadow"
	"github.com/venturi-net/venturi/internal/iperf3"
	"github.com/venturi-net/venturi/internal/lab"
	"github.com/venturi-net/venturi/internal/mesh"
	"github.com/venturi-net/venturi/internal/study"
	"github.com/venturi-net/venturi/result"
)

// printedJSON are the documents that --json prints, and the record.
var printedJSON = []any{
	analysis.Summary{}, display.CommitResult{}, display.FastPathReport{}, display.FastPathStats{}, display.KnobReading{}, display.PathInfo{}, display.ProvedReport{}, display.StoredKernel{},
	display.Transactions{}, doctor.Report{}, doctorcluster.ClusterReport{}, discover.Plan{}, shadow.Result{}, iperf3.TestResult{},
	lab.Info{}, lab.Lab{}, mesh.Survey{}, study.Summary{}, result.Line{},
	confirmedInCluster{}, tunedCluster{}, undoneInCluster{},
}

// Names in JSON are words in lower case with underscores, everywhere.
func TestJSONNames(t *testing.T) {
	seen := map[reflect.Type]bool{}
	for _, document := range printedJSON {
		checkJSONNames(t, reflect.TypeOf(document), seen)
	}
}

var (
	jsonName      = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	jsonMarshaler = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

func checkJSONNames(t *testing.T, typ reflect.Type, seen map[reflect.Type]bool) {
	for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice || typ.Kind() == reflect.Array || typ.Kind() == reflect.Map {
		typ = typ.Elem()
	}
	if typ.Kind() != reflect.Struct || seen[typ] || typ.Implements(jsonMarshaler) || typ.Implements(textMarshaler) {
		return
	}
	seen[typ] = true
	for i := range typ.NumField() {
		f := typ.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || !f.IsExported() && !f.Anonymous {
			continue
		}
		if !f.Anonymous && !jsonName.MatchString(name) {
			t.Errorf("%v: field %s is %q in JSON", typ, f.Name, name)
		}
		checkJSONNames(t, f.Type, seen)
	}
}
