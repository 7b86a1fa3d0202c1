package setting

// entered is what the calling thread has at hand of the place that it is in.
type entered struct {
	device string   // its name now
	root   string   // folder that shows the namespace's devices
	eth    *ethConn // nil: nothing was asked yet
}

func (in *entered) close() {
	if in.eth != nil {
		in.eth.conn.Close()
	}
}

// withEntered runs fn in the place, with a Place by which its values are reached
// without entering it for each of them anew. It must not outlive fn.
func (p Scope) withEntered(fn func(Scope) error) error {
	if p.entered != nil || p.Device == nil {
		return fn(p)
	}
	return p.Enter(func(device string) error {
		return sysfs(func(root string) error {
			in := &entered{device: device, root: root}
			defer in.close()
			p.entered = in
			return fn(p)
		})
	})
}

// sysfs runs fn with the folder that shows the devices of the namespace that the
// calling thread is in.
func (p Scope) sysfs(fn func(root string) error) error {
	if p.entered != nil {
		return fn(p.entered.root)
	}
	return sysfs(fn)
}

// WithEntered runs fn with Settings that reach the values of one device faster than c does:
// many of them are read and written one after another. They must not outlive fn.
// Where the place cannot be entered, fn gets c, by which it will find out why.
func (c *Settings) WithEntered(p Scope, fn func(*Settings) error) error {
	entered := false
	err := p.withEntered(func(near Scope) error {
		entered = true
		return fn(&Settings{backends: c.backends, scope: near})
	})
	if entered {
		return err
	}
	return fn(c)
}

// resolve gives the setting by the place that is near, if that is its own.
func (c *Settings) resolve(cell Setting) Setting {
	if c.scope.entered != nil && cell.Scope.Device != nil && cell.Scope.identity() == c.scope.identity() {
		cell.Scope = c.scope
	}
	return cell
}
