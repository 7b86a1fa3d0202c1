package setting

// Moved gives Settings for the thread that is where a scope's device went, and has another
// name and number.
func (s *Settings) Moved(scope Scope, device string, index int) *Settings {
	scope.entered = &entered{device: device, index: index}
	return &Settings{backends: s.backends, scope: scope}
}
