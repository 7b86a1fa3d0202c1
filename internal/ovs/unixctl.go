package ovs

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
)

// Ask gives the switch daemon a command, as ovs-appctl does, and returns its
// answer. Error: what the daemon says of a command that failed.
func (s *Switch) Ask(ctx context.Context, command string, args ...string) (answer string, err error) {
	err = s.while(ctx, "ask the switch for "+command, func(ctx context.Context) (err error) {
		answer, err = s.runtime.Ask(ctx, switchName, command, args...)
		return err
	})
	return answer, err
}

// Ask gives a command to the daemon of that name and returns its answer.
func (r Runtime) Ask(ctx context.Context, daemon, ask string, args ...string) (string, error) {
	return command(ctx, r.control(daemon), ask, args...)
}

// refusal is what a daemon says of a command that failed.
type refusal struct{ text string }

func (r refusal) Error() string { return r.text }

// command is one call of the protocol of control sockets, which is JSON-RPC 1.0.
func command(ctx context.Context, socket, command string, args ...string) (string, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if args == nil {
		args = []string{} // null is no list
	}
	request := struct {
		ID     int      `json:"id"`
		Method string   `json:"method"`
		Params []string `json:"params"`
	}{0, command, args}
	if err := json.NewEncoder(conn).Encode(request); err != nil {
		return "", fmt.Errorf("ask %s: %w", command, err)
	}
	var reply struct {
		Result string  `json:"result"`
		Error  *string `json:"error"`
	}
	if err := json.NewDecoder(conn).Decode(&reply); err != nil {
		return "", fmt.Errorf("ask %s: %w", command, err)
	}
	if reply.Error != nil {
		return "", fmt.Errorf("ask %s: %w", command, refusal{strings.TrimSpace(*reply.Error)})
	}
	return reply.Result, nil
}

// Version asks the daemon of that name for its version, such as 3.1.0.
func (r Runtime) Version(ctx context.Context, daemon string) (string, error) {
	text, err := r.Ask(ctx, daemon, "version")
	line, _, _ := strings.Cut(text, "\n")
	return line[strings.LastIndexByte(line, ' ')+1:], err // ovs-vswitchd (Open vSwitch) 3.1.0
}
