package remote

import (
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/venturi-net/venturi/internal/verr"
)

// Machine is a machine that can be reached: ssh://[USER@]HOST[:PORT].
type Machine struct {
	Name string // what the user calls it
	User string // empty: as ssh decides
	Host string // a name, an address, or a Host of ssh's configuration
	Port int    // 0: as ssh decides
	// Addr is the address that traffic is measured between, Device the device whose
	// address it is. The zero values: the only address that there is.
	Addr   netip.Addr
	Device string
	Cores  []int // that traffic may be pinned to, the best first; none: any
	NoSudo bool  // who logs in must be root
}

// machineName keeps names usable in files, labels and namespaces.
var machineName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,14}$`)

// ParseMachines reads "a=ssh://root@h1,b=ssh://h2:2222". Errors are for people.
func ParseMachines(text string) ([]Machine, error) {
	var machines []Machine
	seen := map[string]bool{}
	for item := range strings.SplitSeq(text, ",") {
		m, err := parseMachine(item)
		if err != nil {
			return nil, verr.Wrap(verr.Usage, fmt.Sprintf("cannot use machine %q", withoutSecret(item)), err,
				"write NAME=ssh://[USER@]HOST[:PORT][?addr=ADDRESS], such as a=ssh://root@192.0.2.1")
		}
		if seen[m.Name] {
			return nil, verr.New(verr.Usage, fmt.Sprintf("cannot use machine %q", item), "the name "+m.Name+" is given twice", "give each machine a different name")
		}
		seen[m.Name] = true
		machines = append(machines, m)
	}
	return machines, nil
}

// withoutSecret hides a password that somebody wrote into an address.
func withoutSecret(item string) string {
	head, host, ok := strings.Cut(item, "@")
	if scheme, user, found := strings.Cut(head, "://"); ok && found && strings.Contains(user, ":") {
		name, _, _ := strings.Cut(user, ":")
		return scheme + "://" + name + ":...@" + host
	}
	return item
}

func parseMachine(item string) (m Machine, err error) {
	name, address, ok := strings.Cut(item, "=")
	if !ok {
		return m, fmt.Errorf("there is no = between its name and its address")
	}
	if !machineName.MatchString(name) {
		return m, fmt.Errorf("the name %q is not a letter with up to 14 lower-case letters, digits and hyphens", name)
	}
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return m, fmt.Errorf("parse the address: %w", err)
	case u.Scheme != "ssh":
		return m, fmt.Errorf("its scheme is %q, not ssh", u.Scheme)
	case u.Hostname() == "":
		return m, fmt.Errorf("there is no host in %q", address)
	case u.Path != "" || u.Fragment != "":
		return m, fmt.Errorf("something follows the host in %q", address)
	}
	if _, secret := u.User.Password(); secret {
		return m, fmt.Errorf("it holds a password, which others could read: use a key, or ssh's agent")
	}
	m = Machine{Name: name, User: u.User.Username(), Host: u.Hostname()}
	if strings.HasPrefix(m.Host, "-") || strings.HasPrefix(m.User, "-") {
		return m, fmt.Errorf("user and host must not begin with a hyphen")
	}
	if p := u.Port(); p != "" {
		if m.Port, err = strconv.Atoi(p); err != nil || m.Port < 1 || m.Port > 65535 {
			return m, fmt.Errorf("port %q is not between 1 and 65535", p)
		}
	}
	return m, m.query(u.Query())
}

func parseTrafficAddr(text string) (netip.Addr, error) {
	addr, err := netip.ParseAddr(text)
	if err != nil || !addr.Is4() {
		return netip.Addr{}, fmt.Errorf("%q, not an IPv4 address", text)
	}
	return addr, nil
}

// query reads what follows a question mark: addr=ADDRESS and dev=DEVICE.
func (m *Machine) query(q url.Values) (err error) {
	for key, values := range q {
		value := values[len(values)-1]
		switch key {
		case "addr":
			if m.Addr, err = parseTrafficAddr(value); err != nil {
				return fmt.Errorf("addr is %w", err)
			}
		case "dev":
			m.Device = value
		default:
			return fmt.Errorf("%q is neither addr nor dev", key)
		}
	}
	return nil
}
