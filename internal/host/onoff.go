package host

// OnOff writes a flag as ethtool(8) and ip(8) do.
func OnOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}
