package agentpb

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestGeneratedIsCurrent generates the code anew and compares. The plugins of protoc are
// built from the versions that scripts/tools.mod pins.
func TestGeneratedIsCurrent(t *testing.T) {
	if testing.Short() {
		t.Skip("building the plugins of protoc may take a minute")
	}
	for _, tool := range []string{"protoc", "go"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("cannot generate: %v", err)
		}
	}
	dir := t.TempDir()
	build := exec.Command("go", "build", "-modfile=../../../scripts/tools.mod", "-o", dir,
		"google.golang.org/protobuf/cmd/protoc-gen-go", "google.golang.org/grpc/cmd/protoc-gen-go-grpc")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the plugins of protoc: %v: %s", err, out)
	}
	out, err := exec.Command("protoc", "--plugin="+filepath.Join(dir, "protoc-gen-go"), "--plugin="+filepath.Join(dir, "protoc-gen-go-grpc"),
		"--go_opt=paths=source_relative", "--go-grpc_opt=paths=source_relative", "--go_out="+dir, "--go-grpc_out="+dir, "agent.proto").CombinedOutput()
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
