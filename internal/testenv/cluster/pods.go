package cluster

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/venturi-net/venturi/internal/ociimage"
)

// ToolImage is an image that every node has. Its one program pauses, serves its name by
// HTTP and gets pages.
const ToolImage = "venturi.test/clusterd:1"

// writeToolImage writes it of this very program.
func writeToolImage(file string) error {
	exe, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return err
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer out.Close()
	image := ociimage.Image{
		Name: ToolImage, Arch: runtime.GOARCH, User: "65532:65532", Entrypoint: []string{"/clusterd"},
		Files: []ociimage.File{{Path: "clusterd", Mode: 0o755, Data: exe}},
	}
	if err := image.Write(out); err != nil {
		return err
	}
	return out.Close()
}

// Pause does nothing until it is told to end; as the first process of a pod it collects
// orphans.
func Pause() error {
	newChildren("")
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
	<-end
	return nil
}

// Serve answers each request with the name of this host and the address of the client.
func Serve(addr string) error {
	return http.ListenAndServe(addr, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, _ := os.Hostname()
		fmt.Fprintln(w, name, r.RemoteAddr)
	}))
}

// Get prints what a server answers. It asks for half a minute: a Service's address may refuse
// for a moment after its pods are ready.
func Get(ctx context.Context, out io.Writer, url string) error {
	client := http.Client{Timeout: 5 * time.Second}
	return await(ctx, "get "+url, 30*time.Second, func() (bool, string) {
		answer, err := client.Get(url)
		if err != nil {
			return false, err.Error()
		}
		defer answer.Body.Close()
		_, err = io.Copy(out, answer.Body)
		return err == nil, fmt.Sprint(err)
	})
}
