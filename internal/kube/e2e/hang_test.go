package e2e_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/venturi-net/venturi/internal/testenv"
)

// hangAt gives a copy of a kubeconfig by which the answers to some requests do not come: the API server
// has done what it was asked, and hung is closed at the first one. What a command has done by then
// depends on no clock.
func (p *plugin) hangAt(t testing.TB, kubeconfig string, is func(*http.Request) bool) (file string, hung <-chan struct{}) {
	t.Helper()
	server, err := url.Parse(p.Server)
	testenv.Must(t, err)
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(p.CA) {
		t.Fatal("the cluster's authority has no certificate")
	}
	first, tell := make(chan struct{}), sync.Once{}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	front := httptest.NewTLSServer(&httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(server) },
		Transport: transport,
		ModifyResponse: func(r *http.Response) error {
			if !is(r.Request) {
				return nil
			}
			tell.Do(func() { close(first) })
			<-r.Request.Context().Done() // whoever asked is gone
			return r.Request.Context().Err()
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) {}, // nobody is there to be told
	})
	t.Cleanup(func() {
		front.CloseClientConnections()
		front.Close()
		transport.CloseIdleConnections()
	})
	file = filepath.Join(t.TempDir(), "kubeconfig")
	writeKubeconfig(t, kubeconfig, file, "clusters", "cluster", func(cluster map[string]any) {
		cluster["server"] = front.URL
		cluster["certificate-authority-data"] = base64.StdEncoding.EncodeToString(
			pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: front.Certificate().Raw}))
	})
	return file, first
}

// writeKubeconfig writes a copy of a kubeconfig in which all entries of one kind are changed.
func writeKubeconfig(t testing.TB, from, to, list, entry string, change func(map[string]any)) {
	t.Helper()
	text, err := os.ReadFile(from)
	testenv.Must(t, err)
	var config map[string]any
	testenv.Must(t, yaml.Unmarshal(text, &config))
	for _, item := range config[list].([]any) {
		change(item.(map[string]any)[entry].(map[string]any))
	}
	text, err = yaml.Marshal(config)
	testenv.Must(t, err)
	testenv.Must(t, os.WriteFile(to, text, 0o600))
}
