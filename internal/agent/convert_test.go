package agent

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/venturi-net/venturi/internal/agent/agentpb"
	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/load"
	"github.com/venturi-net/venturi/internal/verr"
	"github.com/venturi-net/venturi/result"
)

// fill gives every field below v a value of its own that is not zero, so that
// one that a conversion forgets or mixes up shows.
func fill(v reflect.Value, n *int) {
	*n++
	switch v.Type() {
	case reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Unix(1_700_000_000, int64(*n))))
		return
	case reflect.TypeFor[netip.Addr]():
		v.Set(reflect.ValueOf(netip.MustParseAddr(fmt.Sprintf("fe80::%x%%eth%d", *n, *n))))
		return
	case reflect.TypeFor[netip.AddrPort]():
		v.Set(reflect.ValueOf(netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(*n)}), uint16(*n))))
		return
	case reflect.TypeFor[error]():
		v.Set(reflect.ValueOf(errors.New(fmt.Sprint("error ", *n))))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, n)
		fill(value, n)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString(fmt.Sprint("text ", *n))
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n) + 1<<40) // more than 32 bits
	case reflect.Float64:
		v.SetFloat(float64(*n) + 0.5)
	case reflect.Uint64:
		v.SetUint(uint64(*n) + 1<<63)
	case reflect.Uint8:
		v.SetUint(uint64(*n%250) + 1)
	default:
		panic("fill: teach it " + v.Kind().String())
	}
}

func filled[T any]() T {
	var v T
	n := 0
	fill(reflect.ValueOf(&v).Elem(), &n)
	return v
}

// wire sends a message through its encoded form.
func wire[M proto.Message](t *testing.T, in, out M) M {
	t.Helper()
	b, err := proto.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	if err := proto.Unmarshal(b, out); err != nil {
		t.Fatal(err)
	}
	return out
}

var protoEqual = cmp.Options{
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
	cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b }),
	cmp.Comparer(func(a, b error) bool {
		return (a == nil) == (b == nil) && (a == nil || a.Error() == b.Error())
	}),
}

func TestPlanRoundTrip(t *testing.T) {
	full := filled[load.Plan]()
	full.Schedule = [][]int{{1, 0}, {0, 1}, {1}}
	for name, in := range map[string]load.Plan{"full": full, "empty": {}, "not pinned": {ClientCPU: -1, ServerCPU: -1}} {
		t.Run(name, func(t *testing.T) {
			pb, err := planToPB(in)
			if err != nil {
				t.Fatal(err)
			}
			out, err := planFromPB(wire(t, pb, &agentpb.Plan{}))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(in, out, protoEqual); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSliceRoundTrip(t *testing.T) {
	for name, in := range map[string]load.SliceResult{
		"full":    filled[load.SliceResult](),
		"latency": {Start: time.Unix(0, 1), Latency: &result.Latency{Replies: 1}},
		"stream":  {Start: time.Unix(0, 1), Stream: &result.Stream{SentBytes: 1}},
		"failed":  {Start: time.Unix(0, 1), Err: verr.New(verr.Missing, "what", "why", "do")},
	} {
		t.Run(name, func(t *testing.T) {
			out := sliceFromPB(wire(t, sliceToPB(in), &agentpb.Slice{}))
			if diff := cmp.Diff(in, out, protoEqual); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMeterRoundTrip(t *testing.T) {
	in := filled[result.Meter]()
	out := meterFromPB(wire(t, meterToPB(in), &agentpb.Meter{}))
	if diff := cmp.Diff(in, out); diff != "" {
		t.Error(diff)
	}
}

func TestFailureRoundTrip(t *testing.T) {
	known := filled[verr.Error]()
	out := failureFromPB(wire(t, failureToPB(fmt.Errorf("around: %w", &known)), &agentpb.Failure{}))
	var got *verr.Error
	if !errors.As(out, &got) {
		t.Fatalf("%T is not a verr.Error", out)
	}
	known.Err = nil // the cause stays where it happened; its text is in Why
	if diff := cmp.Diff(&known, got, protoEqual); diff != "" {
		t.Error(diff)
	}
	if out := failureFromPB(failureToPB(errors.New("plain"))); out.Error() != "plain" {
		t.Errorf("a plain error became %v", out)
	}
	if out := failureFromPB(failureToPB(nil)); out != nil {
		t.Errorf("no error became %v", out)
	}
}

func TestPlanFromPBRefuses(t *testing.T) {
	good := func() *agentpb.Plan {
		pb, err := planToPB(load.Plan{Arms: []load.Arm{{Ends: []load.Pair{{From: host.Endpoint{Addr: netip.MustParseAddr("10.0.0.1")}}}}}, Schedule: [][]int{{0}}})
		if err != nil {
			t.Fatal(err)
		}
		return pb
	}
	for name, spoil := range map[string]func(*agentpb.Plan){
		"arm beyond the last": func(p *agentpb.Plan) { p.Schedule[0].Arms[0] = 1 },
		"negative arm":        func(p *agentpb.Plan) { p.Schedule[0].Arms[0] = -1 },
		"short address":       func(p *agentpb.Plan) { p.Arms[0].Ends[0].From.Addr = []byte{1, 2} },
	} {
		t.Run(name, func(t *testing.T) {
			p := good()
			spoil(p)
			if _, err := planFromPB(p); err == nil {
				t.Error("accepted")
			}
		})
	}
	if _, err := planFromPB(good()); err != nil {
		t.Errorf("the unspoilt plan is refused: %v", err)
	}
}
