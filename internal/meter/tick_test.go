package meter

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"
)

// member is a field of a made-up kernel struct at a byte offset.
func member(name string, offset uint32) btf.Member {
	return btf.Member{Name: name, Offset: btf.Bits(8 * offset)}
}

// newKernel and oldKernel are the two shapes of tick_sched that there are.
func newKernel() *btf.Struct {
	return &btf.Struct{Size: 48, Members: []btf.Member{
		member("flags", 0), member("idle_sleeptime_seq", 12), member("idle_entrytime", 16),
		member("idle_sleeptime", 32), member("iowait_sleeptime", 40)}}
}

func oldKernel() *btf.Struct {
	return &btf.Struct{Size: 48, Members: []btf.Member{
		{Name: "tick_stopped", Offset: 65, BitfieldSize: 1}, {Name: "idle_active", Offset: 74, BitfieldSize: 1},
		member("idle_entrytime", 16), member("idle_sleeptime", 32), member("iowait_sleeptime", 40)}}
}

func layoutOf(t *testing.T, s *btf.Struct) *tickLayout {
	t.Helper()
	l := &tickLayout{schedSize: int(s.Size), statSize: 8 * statWords}
	if err := l.findFields(s); err != nil {
		t.Fatal(err)
	}
	return l
}

func TestFindFields(t *testing.T) {
	l := layoutOf(t, newKernel())
	if l.entry != 16 || l.sleep != 32 || l.iowait != 40 || l.seq != 12 || l.flags != 0 || l.flagsSize != 8 || l.idleBit != 4 {
		t.Errorf("new kernel: %+v", l)
	}
	l = layoutOf(t, oldKernel())
	if l.seq != -1 || l.flags != 9 || l.flagsSize != 1 || l.idleBit != 1<<2 {
		t.Errorf("old kernel: %+v", l)
	}
	for _, gone := range []string{"idle_entrytime", "idle_sleeptime", "iowait_sleeptime", "flags"} {
		s := newKernel()
		for i := range s.Members {
			if s.Members[i].Name == gone {
				s.Members[i].Name = "renamed"
			}
		}
		if err := new(tickLayout).findFields(s); !errors.Is(err, errOtherKernel) {
			t.Errorf("without %s: %v", gone, err)
		}
	}
}

// image is what the program would leave for one core.
func image(l *tickLayout, now int64, fields map[int]int64, stat [statWords]int64) []byte {
	b := make([]byte, l.stride())
	put := func(at int, v int64) { binary.NativeEndian.PutUint64(b[at:], uint64(v)) }
	size := round8(l.schedSize)
	for at, v := range fields {
		put(at, v)
		put(size+8+at, v)
	}
	put(size, now)
	for i, v := range stat {
		put(2*size+8+8*i, v)
	}
	return b
}

func TestDecode(t *testing.T) {
	stat := [statWords]int64{10, 20, 30, 40, 50, 60, 70, 80, 90, 5}
	for name, tc := range map[string]struct {
		kernel *btf.Struct
		now    int64
		fields map[int]int64
		spoil  func(b []byte)
		idle   int64
		torn   bool
	}{
		"busy":                    {newKernel(), 1000, map[int]int64{16: 900, 32: 300, 40: 7}, nil, 307, false},
		"idle now":                {newKernel(), 1000, map[int]int64{0: 4 | 1, 16: 900, 32: 300, 40: 7}, nil, 407, false},
		"in an interrupt":         {newKernel(), 1000, map[int]int64{0: 1 | 2, 16: 900, 32: 300}, nil, 300, false},
		"idle since the future":   {newKernel(), 890, map[int]int64{0: 4, 16: 900, 32: 300}, nil, 300, false},
		"old kernel, busy":        {oldKernel(), 1000, map[int]int64{8: 0xfb << 8, 16: 900, 32: 300}, nil, 300, false},
		"old kernel, idle now":    {oldKernel(), 1000, map[int]int64{8: 4 << 8, 16: 900, 32: 300}, nil, 400, false},
		"written meanwhile":       {newKernel(), 1000, map[int]int64{32: 300}, func(b []byte) { b[48+8+32]++ }, 0, true},
		"woke meanwhile":          {newKernel(), 1000, map[int]int64{32: 300}, func(b []byte) { b[0] = 4 }, 0, true},
		"writer held up":          {newKernel(), 1000, map[int]int64{32: 300}, func(b []byte) { b[12] = 1 }, 0, true},
		"other fields may change": {newKernel(), 1000, map[int]int64{32: 300}, func(b []byte) { b[24]++ }, 300, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := layoutOf(t, tc.kernel)
			b := image(l, tc.now, tc.fields, stat)
			if tc.spoil != nil {
				tc.spoil(b)
			}
			var got cpuTimes
			ok := l.decode(b, &got)
			if ok == tc.torn {
				t.Fatalf("whole is %v", ok)
			}
			if tc.torn {
				return
			}
			if got.now != tc.now || got.idle != tc.idle {
				t.Errorf("now %d, idle %d; want %d, %d", got.now, got.idle, tc.now, tc.idle)
			}
			if want := tc.now - tc.idle - 80; got.busy() != want {
				t.Errorf("busy %d, want %d: without idle and steal", got.busy(), want)
			}
			want := [classes]int64{10, 20, 30, 50, 40, 80, 95}
			if got.class != want {
				t.Errorf("classes %v, want %v", got.class, want)
			}
		})
	}
}

func TestStatSaysWhyItIsUsed(t *testing.T) {
	s, err := openStat(fixture, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	s.because = errOtherKernel
	if got := s.resolution(); got == "" || !strings.Contains(got, "10 ms") || !strings.Contains(got, errOtherKernel.Error()) {
		t.Errorf("resolution is %q", got)
	}
}
