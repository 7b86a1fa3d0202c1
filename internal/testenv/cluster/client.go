package cluster

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// client asks the API server for the little that raising a cluster takes. It is no
// client-go because the program is in every container, too, and is to be small.
type client struct {
	http          http.Client
	server, token string
}

func newClient(server string, ca []byte, token string) (*client, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("no certificate in %q", ca)
	}
	return &client{server: server, token: token, http: http.Client{
		Timeout:   10 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}},
	}}, nil
}

// get reads an object, or a text into a string.
func (c *client) get(ctx context.Context, path string, into any) error {
	return c.do(ctx, http.MethodGet, path, nil, into)
}

// create makes an object, and says nothing if it is there.
func (c *client) create(ctx context.Context, path string, object any) error {
	err := c.do(ctx, http.MethodPost, path, object, nil)
	if err != nil && strings.Contains(err.Error(), "AlreadyExists") {
		return nil
	}
	return err
}

func (c *client) do(ctx context.Context, method, path string, object, into any) error {
	var body bytes.Buffer
	if object != nil {
		if err := json.NewEncoder(&body).Encode(object); err != nil {
			return err
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, c.server+path, &body)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	request.Header.Set("Content-Type", "application/json")
	answer, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s: %s", method, path, answer.Status, bytes.TrimSpace(text))
	}
	switch into := into.(type) {
	case nil:
		return nil
	case *string:
		*into = string(text)
		return nil
	}
	return json.Unmarshal(text, into)
}

// nodeList is what is read of nodes.
type nodeList struct {
	Items []struct {
		Metadata struct{ Name string }
		Spec     struct{ PodCIDR string }
		Status   struct {
			Conditions []struct{ Type, Status, Message string }
			Addresses  []struct{ Type, Address string }
		}
	}
}

// nodes says how the nodes are, and how many are ready.
func (c *client) nodes(ctx context.Context) (seen string, ready int) {
	var list nodeList
	if err := c.get(ctx, "/api/v1/nodes", &list); err != nil {
		return err.Error(), 0
	}
	var states []string
	for _, n := range list.Items {
		state := "no condition"
		for _, condition := range n.Status.Conditions {
			if condition.Type == "Ready" {
				state = condition.Status + " (" + condition.Message + ")"
				if condition.Status == "True" {
					ready++
				}
			}
		}
		states = append(states, n.Metadata.Name+" Ready="+state)
	}
	return fmt.Sprintf("%d nodes: %s", len(list.Items), strings.Join(states, ", ")), ready
}

// podRoutes is input for `ip -batch` that routes pods' addresses to their nodes.
func (c *client) podRoutes(ctx context.Context) (string, error) {
	var list nodeList
	if err := c.get(ctx, "/api/v1/nodes", &list); err != nil {
		return "", err
	}
	var b strings.Builder
	for _, n := range list.Items {
		for _, a := range n.Status.Addresses {
			if a.Type == "InternalIP" {
				fmt.Fprintf(&b, "route replace %s via %s\n", n.Spec.PodCIDR, a.Address)
			}
		}
	}
	return b.String(), nil
}
