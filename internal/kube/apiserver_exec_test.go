package kube

import (
	"bytes"
	"io"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/apimachinery/pkg/util/httpstream/spdy"
	"k8s.io/apimachinery/pkg/util/httpstream/wsstream"
)

// exec plays the agent, unless the test has another: it says that it is ready, and sends back what comes.
func (s *apiServer) exec(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.execs++
	noSockets := s.noSockets
	run := echo
	c := parseCall(r)
	if pod := s.pods[c.namespace+"/"+c.name]; pod != nil && s.agent != nil {
		node, command := pod.Spec.NodeName, r.URL.Query()["command"]
		run = func(in io.Reader, out io.Writer) { s.agent(node, command, in, out) }
	}
	s.mu.Unlock()
	if wsstream.IsWebSocketRequest(r) {
		if noSockets {
			http.Error(w, "no WebSocket here", http.StatusBadRequest)
			return
		}
		conn := wsstream.NewConn(map[string]wsstream.ChannelProtocolConfig{"v5.channel.k8s.io": {Binary: true,
			Channels: []wsstream.ChannelType{wsstream.ReadChannel, wsstream.WriteChannel, wsstream.WriteChannel, wsstream.WriteChannel, wsstream.IgnoreChannel}}})
		_, streams, err := conn.Open(w, r)
		if err != nil {
			return
		}
		defer conn.Close()
		run(streams[0], streams[1])
		return
	}
	if _, err := httpstream.Handshake(r, w, []string{"v4.channel.k8s.io"}); err != nil {
		return
	}
	streams := make(chan httpstream.Stream, 4)
	conn := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(stream httpstream.Stream, _ <-chan struct{}) error {
		streams <- stream
		return nil
	})
	if conn == nil {
		return
	}
	defer conn.Close()
	byType := map[string]httpstream.Stream{}
	for range 4 {
		stream := <-streams
		byType[stream.Headers().Get(corev1.StreamType)] = stream
	}
	run(byType[corev1.StreamTypeStdin], byType[corev1.StreamTypeStdout])
	_ = byType[corev1.StreamTypeError].Close()
}

func echo(in io.Reader, out io.Writer) {
	_, _ = out.Write([]byte("venturi-agent 1\n"))
	var b bytes.Buffer
	for one := make([]byte, 1); ; {
		n, err := in.Read(one)
		if err != nil {
			return
		}
		b.Write(one[:n])
		if n > 0 && one[0] == '\n' {
			_, _ = out.Write(b.Bytes())
			b.Reset()
		}
	}
}
