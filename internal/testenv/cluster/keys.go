package cluster

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"text/template"
	"time"
)

// authority issues the certificates of one cluster.
type authority struct {
	keys folder
	cert *x509.Certificate
	pem  []byte
	key  *ecdsa.PrivateKey
}

// newAuthority makes an authority and writes its certificate.
func newAuthority(f folder) (*authority, error) {
	a := &authority{keys: f}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "venturi-test-cluster"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, err
	}
	a.cert = template
	if err := a.sign("ca", template, a.key); err != nil {
		return nil, err
	}
	if a.pem, err = os.ReadFile(f.key("ca.crt")); err != nil {
		return nil, err
	}
	block, _ := pem.Decode(a.pem)
	a.cert, err = x509.ParseCertificate(block.Bytes)
	return a, err
}

// sign writes name.crt, valid for a day longer than any test.
func (a *authority) sign(name string, cert *x509.Certificate, key *ecdsa.PrivateKey) error {
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		return err
	}
	cert.SerialNumber = serial
	cert.NotBefore, cert.NotAfter = time.Now().Add(-time.Hour), time.Now().AddDate(0, 1, 0)
	der, err := x509.CreateCertificate(rand.Reader, cert, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return fmt.Errorf("sign %s: %w", name, err)
	}
	return writePEM(a.keys.key(name+".crt"), "CERTIFICATE", der)
}

// issue writes a key and a certificate for it.
func (a *authority) issue(name string, cert *x509.Certificate) error {
	key, err := newKey(a.keys.key(name + ".key"))
	if err != nil {
		return err
	}
	cert.KeyUsage = x509.KeyUsageDigitalSignature
	return a.sign(name, cert, key)
}

// newKey writes a new key to a file.
func newKey(file string) (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, writePEM(file, "EC PRIVATE KEY", der)
}

func writePEM(file, kind string, der []byte) error {
	return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

// writeKeys writes all certificates and keys of the control plane.
func writeKeys(f folder) (*authority, error) {
	a, err := newAuthority(f)
	if err != nil {
		return nil, err
	}
	if err := a.issue("apiserver", &x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		IPAddresses: []net.IP{controlPlane.AsSlice(), apiService.AsSlice(), net.IPv4(127, 0, 0, 1)},
		DNSNames:    []string{"kubernetes.default.svc"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}); err != nil {
		return nil, err
	}
	if err := a.issue("kubelet-client", &x509.Certificate{
		Subject:     pkix.Name{CommonName: "apiserver", Organization: []string{"system:masters"}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}); err != nil {
		return nil, err
	}
	_, err = newKey(f.key("sa.key"))
	return a, err
}

// user is somebody whom the API server knows by a token.
type user struct {
	file, name, group string
	token             string
}

// users are the administrator and the programs of the cluster.
func users(nodes int) []user {
	list := []user{
		{file: "admin", name: "admin", group: "system:masters"},
		{file: "controller-manager", name: "system:kube-controller-manager"},
		{file: "scheduler", name: "system:kube-scheduler"},
		{file: "proxy", name: "system:kube-proxy"},
	}
	for i := range nodes {
		n := nodeName(i + 1)
		list = append(list, user{file: n, name: "system:node:" + n, group: "system:nodes"})
	}
	for i := range list {
		random := make([]byte, 16)
		rand.Read(random) // never fails
		list[i].token = hex.EncodeToString(random)
	}
	return list
}

// writeUsers writes the tokens and a kubeconfig for each user.
func writeUsers(f folder, ca []byte, list []user) error {
	var tokens bytes.Buffer
	for _, u := range list {
		fmt.Fprintf(&tokens, "%s,%s,%s,%q\n", u.token, u.name, u.name, u.group)
		if err := writeKubeconfig(f.userConfig(u.file), apiServer, ca, u); err != nil {
			return err
		}
	}
	return os.WriteFile(f.key("tokens.csv"), tokens.Bytes(), 0o600)
}

var kubeconfigText = template.Must(template.New("kubeconfig").Parse(`apiVersion: v1
kind: Config
clusters:
- name: venturi-test
  cluster: {server: "{{.Server}}", certificate-authority-data: {{.CA}}}
users:
- name: "{{.User}}"
  user: {token: {{.Token}}}
contexts:
- name: venturi-test
  context: {cluster: venturi-test, user: "{{.User}}"}
current-context: venturi-test
`))

func writeKubeconfig(file, server string, ca []byte, u user) error {
	var b bytes.Buffer
	err := kubeconfigText.Execute(&b, map[string]string{
		"Server": server, "CA": base64.StdEncoding.EncodeToString(ca), "User": u.name, "Token": u.token,
	})
	if err != nil {
		return err
	}
	return os.WriteFile(file, b.Bytes(), 0o600)
}
