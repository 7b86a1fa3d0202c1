package netcfg

// Move gives a device to another namespace, where it gets a new name and is
// brought up. Its addresses and routes do not go with it; its MAC and MTU do.
func (n *Namespace) Move(device string, to *Namespace, name string) error {
	link, err := n.link(device)
	if err != nil {
		return err
	}
	if err := n.h.LinkSetNsFd(link, int(to.file.Fd())); err != nil {
		return n.Wrap("move "+device+" to "+to.name, err)
	}
	if link, err = to.link(device); err != nil {
		return err
	}
	if err := to.h.LinkSetName(link, name); err != nil {
		return to.Wrap("call "+device+" "+name, err)
	}
	return to.Up(name)
}
