package setting

// entered is what the calling thread has at hand of the scope that it is in.
type entered struct {
	device string   // its name now
	index  int      // its number now
	root   string   // folder that shows the namespace's devices
	eth    *ethConn // nil: nothing was asked yet
}

func (in *entered) close() {
	if in.eth != nil {
		in.eth.conn.Close()
	}
}

// withEntered runs fn in the scope, with a Scope by which its values are reached
// without entering it for each of them anew. It must not outlive fn.
func (s Scope) withEntered(fn func(Scope) error) error {
	if s.entered != nil || s.Device == nil {
		return fn(s)
	}
	return s.enterDevice(func(device string, index int) error {
		return sysfs(func(root string) error {
			in := &entered{device: device, index: index, root: root}
			defer in.close()
			s.entered = in
			return fn(s)
		})
	})
}

// sysfs runs fn with the folder that shows the devices of the namespace that the
// calling thread is in.
func (s Scope) sysfs(fn func(root string) error) error {
	if s.entered != nil {
		return fn(s.entered.root)
	}
	return sysfs(fn)
}

// WithEntered runs fn with Settings that reach the values of one device faster than s does:
// many of them are read and written one after another. They must not outlive fn.
// Where the scope cannot be entered, fn gets s, by which it will find out why.
func (s *Settings) WithEntered(scope Scope, fn func(*Settings) error) error {
	entered := false
	err := scope.withEntered(func(near Scope) error {
		entered = true
		return fn(&Settings{backends: s.backends, scope: near})
	})
	if entered {
		return err
	}
	return fn(s)
}

// resolve gives the setting by the scope that is entered, if that is its own.
func (s *Settings) resolve(setting Setting) Setting {
	if s.scope.entered != nil && setting.Scope.Device != nil && setting.Scope.identity() == s.scope.identity() {
		setting.Scope = s.scope
	}
	return setting
}
