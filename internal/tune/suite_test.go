package tune

// samples are values of knobs that have no range, or not all of it.
var samples = map[string][]string{}
