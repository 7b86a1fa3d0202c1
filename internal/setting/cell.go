package setting

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// Cell is one value of a machine that can be read and written whole: a sysctl
// of a namespace, the rings of a device, a file. It says all that is needed to
// find the value again, by another process or another version of this program.
type Cell struct {
	Store string `json:"store"`          // which kind of value, the name of a [Store]
	Place Place  `json:"place,omitzero"` // where
	Key   string `json:"key,omitempty"`  // which one there, in the words of the store
}

// String is the cell as a person reads it: "sysctl net/core/somaxconn in /run/netns/a".
func (c Cell) String() string {
	text := c.Store
	if c.Key != "" {
		text += " " + c.Key
	}
	if place := c.Place.String(); place != "" {
		text += " " + place
	}
	return text
}

// ID is equal for two cells that are the same value, whatever they are called by now.
func (c Cell) ID() string {
	text, err := json.Marshal([]any{c.Store, c.Place.identity(), c.Key})
	if err != nil {
		panic(err) // strings and numbers always can be written
	}
	return string(text)
}

// Value is what a cell holds, byte for byte. The zero Value is that of a cell
// that may be absent and is, such as a file that does not exist.
type Value struct {
	Data    []byte
	Present bool

	// Made is how a file is made anew that was removed; nil: as any new one. Two
	// values that differ in this alone are the same.
	Made *FileMode
}

// Text makes a Value of text.
func Text(s string) Value { return Value{Data: []byte(s), Present: true} }

// Equal tells whether two values are the same, byte for byte.
func (v Value) Equal(w Value) bool { return v.Present == w.Present && string(v.Data) == string(w.Data) }

func (v Value) String() string {
	if !v.Present {
		return "(absent)"
	}
	return string(v.Data)
}

// encoded is how a value that is not text alone is written as JSON.
type encoded struct {
	Text   string    `json:"text,omitempty"`
	Base64 string    `json:"base64,omitempty"`
	Made   *FileMode `json:"made,omitempty"`
}

// MarshalJSON writes null for an absent value, a string for text, and an object
// for everything else: text, or base64 of what is none, and how its file is made.
func (v Value) MarshalJSON() ([]byte, error) {
	text := utf8.Valid(v.Data)
	switch {
	case !v.Present:
		return []byte("null"), nil
	case text && v.Made == nil:
		return json.Marshal(string(v.Data))
	case text:
		return json.Marshal(encoded{Text: string(v.Data), Made: v.Made})
	}
	return json.Marshal(encoded{Base64: base64.StdEncoding.EncodeToString(v.Data), Made: v.Made})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (v *Value) UnmarshalJSON(text []byte) error {
	*v = Value{}
	if string(text) == "null" {
		return nil
	}
	var s string
	if json.Unmarshal(text, &s) == nil {
		*v = Text(s)
		return nil
	}
	var e encoded
	if err := json.Unmarshal(text, &e); err != nil {
		return fmt.Errorf("read value: %w", err)
	}
	data, err := base64.StdEncoding.DecodeString(e.Base64)
	if err != nil {
		return fmt.Errorf("read value: %w", err)
	}
	*v = Value{Data: append([]byte(e.Text), data...), Present: true, Made: e.Made}
	return nil
}

// Write is one write that somebody wants: a cell, and what it shall hold.
type Write struct {
	Cell  Cell  `json:"cell"`
	Value Value `json:"value"`
}

// Store is one kind of cells, such as the sysctls. Only Name, Read and Write
// must be there. One write is one call of the kernel, or a file renamed into its
// place: nobody ever finds half of it, but where Halfway says what that looks like.
type Store struct {
	Name string

	// Read gives what the cell holds. What it gives, Write takes, and brings back
	// exactly: where the kernel shows a value in other words than it takes it
	// ("always [madvise] never"), Read translates.
	Read func(Cell) (Value, error)

	// Write makes the cell hold the value. That the kernel took it is for the
	// caller to see, by Read.
	Write func(Cell, Value) error

	// Alike tells whether found is what asked becomes when it is written: the
	// kernel cleans white space, or rounds up to a power of two. Nil: only what is
	// equal is alike.
	Alike func(c Cell, asked, found Value) bool

	// Same tells whether a cell that holds found need not be written to hold asked:
	// it says the same in other words, and nothing was rounded. Nil: only what is
	// equal is the same.
	Same func(c Cell, asked, found Value) bool

	// Halfway tells whether found is what a write of asked leaves that was killed
	// in the middle. Nil: a write has no middle.
	Halfway func(asked, found Value) bool

	// Lasts: the values outlive a reboot.
	Lasts bool

	// Around lists the other cells that a write to this one may change too, such
	// as what a driver forgets when its rings are made anew. Nil: none.
	Around func(Cell) ([]Cell, error)

	// Sweep removes what a write that was killed half-way left behind, such as a
	// file that did not come to its name. Nil: nothing is ever left.
	Sweep func(Cell) error
}

// Cells reads and writes cells of the stores in a table.
type Cells struct {
	stores map[string]Store
	near   Place // of which values are reached faster; zero: none
}

// NewCells makes Cells of stores; no two of them may have the same name.
func NewCells(stores ...Store) *Cells {
	c := &Cells{stores: map[string]Store{}}
	for _, s := range stores {
		if _, twice := c.stores[s.Name]; twice {
			panic("two stores are called " + s.Name)
		}
		c.stores[s.Name] = s
	}
	return c
}

func (c *Cells) store(cell Cell) (Store, error) {
	s, ok := c.stores[cell.Store]
	if !ok {
		return s, fmt.Errorf("%s: this version knows no store %q", cell, cell.Store)
	}
	return s, nil
}

// Read gives what a cell holds.
func (c *Cells) Read(cell Cell) (Value, error) {
	s, err := c.store(cell)
	if err != nil {
		return Value{}, err
	}
	v, err := s.Read(c.at(cell))
	if err != nil {
		return Value{}, fmt.Errorf("read %s: %w", cell, err)
	}
	return v, nil
}

// Write writes a cell. Only package journal calls it, which knows the old value
// to be on disk.
func (c *Cells) Write(cell Cell, v Value) error {
	s, err := c.store(cell)
	if err != nil {
		return err
	}
	if err := s.Write(c.at(cell), v); err != nil {
		return fmt.Errorf("write %s: %w", cell, err)
	}
	return nil
}

// Alike tells whether found is what asked becomes in this cell.
func (c *Cells) Alike(cell Cell, asked, found Value) bool {
	if asked.Equal(found) {
		return true
	}
	s, err := c.store(cell)
	return err == nil && s.Alike != nil && asked.Present && found.Present && s.Alike(cell, asked, found)
}

// Same tells whether a cell that holds found has what is asked for already: the
// same value, if perhaps in other words. What a write would become by rounding is
// [Cells.Alike], and not the same.
func (c *Cells) Same(cell Cell, asked, found Value) bool {
	if asked.Equal(found) {
		return true
	}
	s, err := c.store(cell)
	return err == nil && s.Same != nil && asked.Present && found.Present && s.Same(cell, asked, found)
}

// Halfway tells whether found is what a write of asked to this cell leaves that
// was killed in the middle.
func (c *Cells) Halfway(cell Cell, asked, found Value) bool {
	s, err := c.store(cell)
	return err == nil && s.Halfway != nil && asked.Present && found.Present && s.Halfway(asked, found)
}

// Lasts tells whether a cell's value outlives a reboot.
func (c *Cells) Lasts(cell Cell) bool {
	s, err := c.store(cell)
	return err == nil && s.Lasts
}

// Around lists the other cells that a write to this one may change.
func (c *Cells) Around(cell Cell) ([]Cell, error) {
	s, err := c.store(cell)
	if err != nil || s.Around == nil {
		return nil, err
	}
	cells, err := s.Around(c.at(cell))
	for i := range cells {
		cells[i].Place.inside = nil // they outlive it
	}
	return cells, err
}

// Sweep removes what a write to a cell that was killed half-way left behind.
func (c *Cells) Sweep(cell Cell) error {
	s, err := c.store(cell)
	if err != nil || s.Sweep == nil {
		return err
	}
	return s.Sweep(cell)
}
