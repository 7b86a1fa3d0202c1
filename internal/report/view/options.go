package view

// Options say how a record is shown.
type Options struct {
	Format string // a name of report.Formats; "": table
	Style  string // "": ours; "qperf": as qperf prints its results
	Width  int    // of the terminal, columns; 0: 120
	Bars   bool   // draw intervals as bars of Unicode marks in a table for a terminal
	// Verbose shows CPU time by class and by core, and what the meters counted,
	// below the figures of a table. The other formats always hold these.
	Verbose bool
	// FastPathStats shows what became of the packets of paths with a fast path. For
	// programs it always does.
	FastPathStats bool
	// Figure is the one that the format svg draws: a name of figure.Kinds, and of a
	// load behind a slash where there are several. "": the first.
	Figure string
}

// DefaultWidth is how wide a table may get where nothing is known.
const DefaultWidth = 120
