package allowlist

import (
	"fmt"
	"github.com/venturi-net/venturi/internal/nlmsg"
	"slices"
)

// allowlist are those of one kind of object that are proven, by their numbers.
type Attrs struct {
	Object string
	Names  map[uint16]string
	Test   string
}

// firstUnknown names the first attribute that is not proven; "": there is none.
func (a *Attrs) FirstUnknown(list nlmsg.Attrs) string {
	for _, one := range list {
		if number := nlmsg.Number(one.Attr.Type); a.Names[number] == "" {
			return fmt.Sprintf("attribute %d of %s", number, a.Object)
		}
	}
	return ""
}

// numbered gives names to numbers, from the first on; empty ones are left out.
func NamesFrom(first uint16, names ...string) map[uint16]string {
	all := map[uint16]string{}
	for i, name := range names {
		if name != "" {
			all[first+uint16(i)] = name
		}
	}
	return all
}

// firstUnknownNamed names the first attribute that is not proven, where there is a name for it by
// that.
func (a *Attrs) FirstUnknownNamed(list nlmsg.Attrs, names map[uint16]string) string {
	for _, one := range list {
		if name := names[nlmsg.Number(one.Attr.Type)]; name != "" {
			return name
		}
	}
	return a.FirstUnknown(list)
}

// AllowlistRow is one row of what is proven to treat all packets of a flow alike, so that who
// has seen some of them knows what becomes of the next. A flow is carried only where
// everything on its way is in a row of [Allowlist]: what is not is refused by its name.
type Row struct {
	Kind  string   // kind of object that the kernel tells of
	Names []string // of what is proven: its attributes, or kinds
	Test  string   // that shows it
}

func Keys[V any](m map[string]V) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func Names[K comparable, V any](m map[K]V) (names []string) {
	for k, v := range m {
		if name, ok := any(v).(string); ok {
			names = append(names, name)
		} else {
			names = append(names, fmt.Sprint(k))
		}
	}
	slices.Sort(names)
	return names
}

func NameSet(names ...string) map[string]bool {
	all := map[string]bool{}
	for _, n := range names {
		all[n] = true
	}
	return all
}
