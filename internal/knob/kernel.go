package knob

// kernelKnobs are those of the kernel's network stack.
func kernelKnobs() []Entry {
	return []Entry{
		backlog,
	}
}
