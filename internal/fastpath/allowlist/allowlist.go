package allowlist

import (
	"fmt"
	"slices"

	"github.com/venturi-net/venturi/internal/nlmsg"
)

// Attrs are the netlink attributes of one kind of object that are proven harmless, by number.
type Attrs struct {
	Object string
	Names  map[uint16]string
	Test   string
}

// FirstUnknown names the first attribute that is not in the list; "": there is none.
func (a *Attrs) FirstUnknown(list nlmsg.Attrs) string {
	for _, one := range list {
		if number := nlmsg.Number(one.Attr.Type); a.Names[number] == "" {
			return fmt.Sprintf("attribute %d of %s", number, a.Object)
		}
	}
	return ""
}

// NamesFrom numbers names, from first on; empty names are left out.
func NamesFrom(first uint16, names ...string) map[uint16]string {
	all := map[uint16]string{}
	for i, name := range names {
		if name != "" {
			all[first+uint16(i)] = name
		}
	}
	return all
}

// FirstUnknownNamed names the first attribute that is not in the list, by a name if there is
// one for it.
func (a *Attrs) FirstUnknownNamed(list nlmsg.Attrs, names map[uint16]string) string {
	for _, one := range list {
		if name := names[nlmsg.Number(one.Attr.Type)]; name != "" {
			return name
		}
	}
	return a.FirstUnknown(list)
}

// Row is one row of what is proven to treat all packets of a flow alike. A flow is carried only
// where everything on its path is in a row; anything else is refused by name.
type Row struct {
	Kind  string   // kind of kernel object
	Names []string // of proven attributes or kinds
	Test  string   // the test that proves it
}

// Keys lists the keys of a map in order.
func Keys[V any](m map[string]V) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// Names lists the values of a map in order, or its keys if the values are not names.
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

// NameSet makes a set of names.
func NameSet(names ...string) map[string]bool {
	all := map[string]bool{}
	for _, n := range names {
		all[n] = true
	}
	return all
}
