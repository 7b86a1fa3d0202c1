package setting

// inside is what the calling thread has at hand of the place that it is in.
type inside struct {
	device string   // its name now
	root   string   // folder that shows the namespace's devices
	eth    *ethConn // nil: nothing was asked yet
}

func (in *inside) close() {
	if in.eth != nil {
		in.eth.conn.Close()
	}
}

// near runs fn in the place, with a Place by which its values are reached
// without entering it for each of them anew. It must not outlive fn.
func (p Place) near(fn func(Place) error) error {
	if p.inside != nil || p.Device == nil {
		return fn(p)
	}
	return p.Enter(func(device string) error {
		return sysfs(func(root string) error {
			in := &inside{device: device, root: root}
			defer in.close()
			p.inside = in
			return fn(p)
		})
	})
}

// sysfs runs fn with the folder that shows the devices of the namespace that the
// calling thread is in.
func (p Place) sysfs(fn func(root string) error) error {
	if p.inside != nil {
		return fn(p.inside.root)
	}
	return sysfs(fn)
}

// Near runs fn with Cells that reach the values of one device faster than c does:
// many of them are read and written one after another. They must not outlive fn.
// Where the place cannot be entered, fn gets c, by which it will find out why.
func (c *Cells) Near(p Place, fn func(*Cells) error) error {
	entered := false
	err := p.near(func(near Place) error {
		entered = true
		return fn(&Cells{stores: c.stores, near: near})
	})
	if entered {
		return err
	}
	return fn(c)
}

// at gives the cell by the place that is near, if that is its own.
func (c *Cells) at(cell Cell) Cell {
	if c.near.inside != nil && cell.Place.Device != nil && cell.Place.identity() == c.near.identity() {
		cell.Place = c.near
	}
	return cell
}
