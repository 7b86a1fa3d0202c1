package ovs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/ovn-org/libovsdb/client"
	"github.com/ovn-org/libovsdb/ovsdb"

	"github.com/venturi-net/venturi/internal/sanitize"
	"github.com/venturi-net/venturi/internal/setting"
)

// Running is what there is to know of a switch that somebody else runs.
type Running struct {
	Version   string   // of the daemon, as it says; empty: it never started
	Types     []string // of ports that it can make: "geneve", "vxlan"
	Datapaths []string // of its bridges, each once: "system", "netdev"
}

// LookAt reads what the database of a switch says; an empty socket is
// the machine's own. Error: [ErrNoDatabase].
func LookAt(socket string) (r Running, err error) {
	err = ask(cmp.Or(socket, switchSocket), switchDatabase, func(ctx context.Context, c client.Client) error {
		rows, err := Select(ctx, c, tableRoot, nil, "ovs_version", "iface_types")
		if err != nil {
			return err
		}
		for _, row := range rows {
			r.Version, _ = row["ovs_version"].(string) // a set of none, when it is not there
			r.Types = texts(row["iface_types"])
		}
		if rows, err = Select(ctx, c, tableBridge, nil, "datapath_type"); err != nil {
			return err
		}
		seen := map[string]bool{}
		for _, row := range rows {
			kind, _ := row["datapath_type"].(string)
			if kind == "" {
				kind = Kernel
			}
			if !seen[kind] {
				seen[kind] = true
				r.Datapaths = append(r.Datapaths, kind)
			}
		}
		return nil
	})
	return r, err
}

// texts reads a set of texts; one of a single text is shown as that text.
func texts(column any) (list []string) {
	switch c := column.(type) {
	case string:
		list = []string{c}
	case ovsdb.OvsSet:
		for _, one := range c.GoSet {
			list = append(list, fmt.Sprint(one))
		}
	}
	return list
}

// Tunnels reads of each tunnel of a switch, by its name, the option "csum":
// "true", "false", or nothing.
func Tunnels(socket string) (csum map[string]string, err error) {
	csum = map[string]string{}
	err = ask(cmp.Or(socket, switchSocket), switchDatabase, func(ctx context.Context, c client.Client) error {
		rows, err := Select(ctx, c, tableInterface, nil, "name", "type", "options")
		if err != nil {
			return err
		}
		for _, row := range rows {
			options, _ := row["options"].(ovsdb.OvsMap)
			switch row["type"] {
			case "geneve", "vxlan", "stt":
				csum[fmt.Sprint(row["name"])] = ""
				if v, there := options.GoMap["csum"]; there {
					csum[fmt.Sprint(row["name"])] = fmt.Sprint(v)
				}
			}
		}
		return nil
	})
	return csum, err
}

// Balanced is a logical switch that has load balancers.
type Balanced struct {
	Name    string
	Setting setting.Setting // which of them it has
	Count   int             // how many
}

// Balancers counts the load balancers of a northbound database, and lists the
// logical switches and what of them each has; an empty socket is
// the machine's own. Error: [ErrNoDatabase].
func Balancers(socket string) (all int, switches []Balanced, err error) {
	socket = cmp.Or(socket, northboundSocket)
	err = ask(socket, northboundDatabase, func(ctx context.Context, c client.Client) error {
		rows, err := Select(ctx, c, "Load_Balancer", nil, "_uuid")
		if err != nil {
			return err
		}
		all = len(rows)
		if rows, err = Select(ctx, c, "Logical_Switch", nil, "_uuid", "name", "load_balancer"); err != nil {
			return err
		}
		for _, row := range rows {
			own, err := uuids(row["load_balancer"])
			id, ok := row["_uuid"].(ovsdb.UUID)
			if err != nil || !ok {
				return errors.Join(errors.New("read logical switches"), err)
			}
			f := field{socket, northboundDatabase, "Logical_Switch", id.GoUUID, "load_balancer", ""}
			switches = append(switches, Balanced{fmt.Sprint(row["name"]), f.setting(), len(own)})
		}
		return nil
	})
	return all, switches, err
}

// Threads counts the threads of the daemon of a switch that take in packets
// without a flow (handlers) and that look flows over (revalidators). Error: the
// daemon does not run, or on another machine.
func Threads(socket string) (handlers, revalidators int, err error) {
	control, err := daemonSocket(socket)
	if err != nil {
		return 0, 0, err
	}
	pid, err := peer(control)
	if err != nil {
		return 0, 0, err
	}
	names, err := sanitize.Files(fmt.Sprintf("/proc/%d/task", pid), "*/comm")
	if err != nil {
		return 0, 0, err
	}
	for _, file := range names {
		name, err := os.ReadFile(file)
		if err != nil {
			continue // it ended
		}
		switch {
		case strings.HasPrefix(string(name), "handler"):
			handlers++
		case strings.HasPrefix(string(name), "revalidator"):
			revalidators++
		}
	}
	return handlers, revalidators, nil
}

// DispatchModes gives how the kernel's datapaths hand packets without a flow to
// the daemon, as it says itself; empty: there is none, or it does not know.
func DispatchModes(socket string) (string, error) {
	control, err := daemonSocket(socket)
	if err != nil {
		return "", err
	}
	// With no such datapath it does not answer at all (seen of 3.1).
	if look, err := LookAt(socket); err != nil || !slices.Contains(look.Datapaths, Kernel) {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), askLimit)
	defer cancel()
	answer, err := command(ctx, control, "dpif-netlink/dispatch-mode")
	if errors.As(err, new(refusal)) {
		return "", nil // before 2.16 there was but one mode
	}
	return strings.TrimSpace(answer), err
}

// daemonSocket finds the control socket of the daemon whose database is behind a
// socket: they are in one folder.
func daemonSocket(socket string) (string, error) {
	folder := filepath.Dir(strings.TrimPrefix(cmp.Or(socket, switchSocket), "unix:"))
	found, err := sanitize.Files(folder, "*vswitchd*.ctl")
	if err != nil {
		return "", err
	}
	for _, file := range found {
		if _, err := peer(file); err == nil { // others are of daemons that died
			return file, nil
		}
	}
	return "", fmt.Errorf("no ovs-vswitchd answers in %s", folder)
}

// peer gives the process that listens at a socket.
func peer(socket string) (pid int, err error) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		return 0, fmt.Errorf("ask ovs-vswitchd: %w", err)
	}
	defer conn.Close()
	raw, err := conn.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, err
	}
	var ucred *syscall.Ucred
	if controlErr := raw.Control(func(fd uintptr) {
		ucred, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); controlErr != nil {
		return 0, controlErr
	}
	if err != nil {
		return 0, fmt.Errorf("find process of ovs-vswitchd: %w", err)
	}
	return int(ucred.Pid), nil
}
