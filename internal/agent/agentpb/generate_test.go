package agentpb

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestGeneratedIsCurrent generates anew and compares, where the tools are.
func TestGeneratedIsCurrent(t *testing.T) {
	args := []string{"--go_opt=paths=source_relative", "--go-grpc_opt=paths=source_relative"}
	for _, tool := range []string{"protoc", "protoc-gen-go", "protoc-gen-go-grpc"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("cannot generate: %v", err)
		}
	}
	dir := t.TempDir()
	out, err := exec.Command("protoc", append(args, "--go_out="+dir, "--go-grpc_out="+dir, "agent.proto")...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, name := range []string{"agent.pb.go", "agent_grpc.pb.go"} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		committed, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(withoutVersions(got), withoutVersions(committed)) {
			t.Errorf("%s is not what agent.proto says; run go generate", name)
		}
	}
}

// withoutVersions leaves out the lines that name the tools' versions.
func withoutVersions(b []byte) []byte {
	var kept [][]byte
	for _, l := range bytes.Split(b, []byte("\n")) {
		if !bytes.HasPrefix(l, []byte("// ")) {
			kept = append(kept, l)
		}
	}
	return bytes.Join(kept, []byte("\n"))
}
