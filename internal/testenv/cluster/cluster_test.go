package cluster

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestOptions(t *testing.T) {
	got, err := Options{}.withDefaults()
	if err != nil || got.Name != DefaultName || got.Nodes != 2 || got.Backend != "vxlan" || got.ProxyMode != "iptables" {
		t.Errorf("the defaults are %+v, %v", got, err)
	}
	for _, o := range []Options{{Nodes: -1}, {Nodes: 101}, {Backend: "ipip"}, {ProxyMode: "ipvs"}, {Name: "../x"}} {
		if _, err := o.withDefaults(); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}

// The API server's certificate holds where it listens, and where it is forwarded to.
func TestKeys(t *testing.T) {
	f := folder(t.TempDir())
	if err := os.MkdirAll(f.data("pki"), 0o700); err != nil {
		t.Fatal(err)
	}
	ca, err := writeKeys(f)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca.cert)
	text, err := os.ReadFile(f.key("apiserver.crt"))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{controlPlane.String(), apiService.String(), "127.0.0.1", "kubernetes.default.svc"} {
		if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: name}); err != nil {
			t.Errorf("the certificate for %s: %v", name, err)
		}
	}
}

// What is kept is built again when its source changes, and only then.
func TestSourceHash(t *testing.T) {
	dir := t.TempDir()
	files := []string{"go.mod", "go.sum", "main.go", "flannel.go"} // all that there are
	for _, name := range files {
		text, err := os.ReadFile(filepath.Join("bin", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	hash := func() string {
		h, err := sourceHash(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	first := hash()
	if again := hash(); again != first {
		t.Errorf("the same source has the keys %s and %s", first, again)
	}
	if err := os.WriteFile(filepath.Join(dir, "flannel.go"), []byte("package main"), 0o600); err != nil {
		t.Fatal(err)
	}
	if hash() == first {
		t.Error("another source has the same key")
	}
}

// The version that the programs print is that of the module.
func TestKubeVersion(t *testing.T) {
	text, err := os.ReadFile("bin/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "k8s.io/kubernetes "+kubeVersion+"\n") {
		t.Errorf("bin/go.mod does not require k8s.io/kubernetes %s", kubeVersion)
	}
}

// A program is asked to end with the context, and an error repeats what it said last.
func TestCommandEnds(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	_, err := commandLines(ctx, "", func(line string) {
		if line == "ready" {
			stop()
		}
	}, "sh", "-c", `trap 'echo asked >&2; exit 3' INT; echo ready >&2; while :; do sleep 0.05; done`)
	if err == nil || !strings.HasSuffix(err.Error(), "exit status 3: ready\nasked") {
		t.Errorf("the error is %v", err)
	}
}

func TestAwait(t *testing.T) {
	err := await(context.Background(), "rain", 10*time.Millisecond, func() (bool, string) { return false, "sun" })
	if err == nil || err.Error() != "rain: not within 10ms; seen last: sun" {
		t.Errorf("the error is %v", err)
	}
}
