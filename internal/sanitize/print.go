package sanitize

import (
	"fmt"
	"io"
	"reflect"
)

// Safe is text that is printed as it is: it was cleaned, or no part of it is from
// outside.
type Safe string

// Fprintf is [fmt.Fprintf] with every argument cleaned by [Text]. The format is the
// printer's own, and stays as it is.
func Fprintf(w io.Writer, format string, args ...any) (int, error) {
	return fmt.Fprintf(w, format, cleaned(args)...)
}

// Fprintln is [fmt.Fprintln] with every argument cleaned.
func Fprintln(w io.Writer, args ...any) (int, error) {
	return fmt.Fprintln(w, cleaned(args)...)
}

// Fprint is [fmt.Fprint] with every argument cleaned.
func Fprint(w io.Writer, args ...any) (int, error) {
	return fmt.Fprint(w, cleaned(args)...)
}

// Sprintf is [fmt.Sprintf] with every argument cleaned.
func Sprintf(format string, args ...any) Safe {
	return Safe(fmt.Sprintf(format, cleaned(args)...))
}

func cleaned(args []any) []any {
	clean := make([]any, len(args))
	for i, a := range args {
		clean[i] = cleanedArg(a)
	}
	return clean
}

func cleanedArg(arg any) any {
	switch a := arg.(type) {
	case nil:
		return nil
	case Safe:
		return string(a)
	case string:
		return Text(a)
	case fmt.Stringer, error, fmt.Formatter:
		return formatted{a}
	}
	switch kind := reflect.TypeOf(arg).Kind(); {
	case kind == reflect.String:
		return Text(reflect.ValueOf(arg).String())
	case kind <= reflect.Complex128: // booleans and numbers
		return arg
	}
	return formatted{arg}
}

// formatted prints a value as its verb says, and cleans what comes of it.
type formatted struct{ value any }

func (f formatted) Format(state fmt.State, verb rune) {
	io.WriteString(state, Text(fmt.Sprintf(fmt.FormatString(state, verb), f.value)))
}

// Writer cleans the lines that are written to it, each write a whole number of
// characters, as those of package fmt are.
type Writer struct{ W io.Writer }

func (w Writer) Write(text []byte) (int, error) {
	_, err := io.WriteString(w.W, Lines(string(text)))
	return len(text), err
}
