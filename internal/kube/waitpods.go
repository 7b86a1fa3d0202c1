package kube

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"errors"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/verr"
)

// How long a pod may take.
const (
	podStartLimit    = 3 * time.Minute // from its creation until it runs: an image has to come
	podScheduleLimit = 30 * time.Second
	pollEvery        = 250 * time.Millisecond
)

// podPoll reads the pods of a run, once for all who wait for one.
type podPoll struct {
	placement *Placement
	mu        sync.Mutex
	asked     time.Time
	list      corev1.PodList
}

func (p *Placement) watchPods() *podPoll { return &podPoll{placement: p} }

// read gives the pods as they were a moment ago.
func (w *podPoll) read(ctx context.Context) ([]corev1.Pod, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if time.Since(w.asked) >= pollEvery {
		var list corev1.PodList
		p := w.placement
		if err := p.client.list(ctx, pods, p.run.namespace, p.run.selector(), &list); err != nil {
			return nil, err
		}
		w.list, w.asked = list, time.Now()
	}
	return w.list.Items, nil
}

// running waits until the pod of a role runs.
func (w *podPoll) running(ctx context.Context, role string) (*corev1.Pod, error) {
	began := time.Now()
	for {
		all, err := w.read(ctx)
		if err != nil {
			return nil, err
		}
		var pod *corev1.Pod
		for i := range all {
			if w.placement.has(&all[i], role) && (pod == nil || all[i].CreationTimestamp.Before(&pod.CreationTimestamp)) {
				pod = &all[i]
			}
		}
		if pod != nil {
			if ready(pod) {
				w.placement.note(pod)
				return pod, nil
			}
			if err := stuck(pod, time.Since(began)); err != nil {
				return nil, err
			}
		}
		if took := time.Since(began); took > podStartLimit {
			return nil, verr.New(verr.Failed, "cannot start the "+role+" pod", fmt.Sprintf("it is not running after %v", took.Round(time.Second)),
				"run the command again, and meanwhile see `kubectl describe pods -n "+w.placement.run.namespace+"`")
		}
		if err := host.Sleep(ctx, pollEvery); err != nil {
			return nil, err
		}
	}
}

func ready(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodRunning && pod.Status.PodIP != "" &&
		len(pod.Status.ContainerStatuses) > 0 && pod.Status.ContainerStatuses[0].State.Running != nil
}

// hopeless are reasons for which a container does not start later either.
var hopeless = map[string]string{
	"ErrImagePull": "image", "ImagePullBackOff": "image", "ErrImageNeverPull": "image", "InvalidImageName": "image",
	"CreateContainerConfigError": "", "CreateContainerError": "", "RunContainerError": "",
}

// stuck tells why a pod will not run; nil: it may still.
func stuck(pod *corev1.Pod, waited time.Duration) error {
	fail := func(why, do string) error {
		return verr.New(verr.Failed, "cannot start pod "+pod.Namespace+"/"+pod.Name, why, do)
	}
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		why := strings.TrimSpace(pod.Status.Reason + " " + pod.Status.Message)
		for _, s := range pod.Status.ContainerStatuses {
			if t := s.State.Terminated; t != nil {
				why = strings.TrimSpace(fmt.Sprintf("%s: its container ended with code %d %s %s", why, t.ExitCode, t.Reason, t.Message))
			}
		}
		return fail(strings.TrimLeft(why, ": "), "check that the image has this version of venturi, built for the nodes' architecture")
	}
	for _, s := range pod.Status.ContainerStatuses {
		if w := s.State.Waiting; w != nil {
			kind, known := hopeless[w.Reason]
			switch {
			case known && kind == "image":
				return fail(w.Reason+": "+w.Message, "name an image that the nodes can pull with --image, and the Secret for its registry with --image-pull-secret")
			case known:
				return fail(w.Reason+": "+w.Message, "see `kubectl describe pod -n "+pod.Namespace+" "+pod.Name+"`")
			}
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && waited > podScheduleLimit {
			return fail("no node accepts it: "+c.Message, "name other nodes with --nodes, or tolerate their taints with --toleration")
		}
	}
	return nil
}

// note keeps the address of a pod's node.
func (p *Placement) note(pod *corev1.Pod) {
	if addr, err := netip.ParseAddr(pod.Status.HostIP); err == nil {
		p.hosts.Store(pod.Spec.NodeName, addr)
	}
}

// nodeAddr is the InternalIP of an end's node.
func (p *Placement) nodeAddr(e TrafficEnd) netip.Addr {
	addr, _ := p.hosts.Load(e.node)
	a, _ := addr.(netip.Addr)
	return a
}

// noServiceAccount tells of the moment in which a namespace is too young for pods.
func noServiceAccount(err error) bool {
	var said apierrors.APIStatus
	return errors.As(err, &said) && strings.Contains(said.Status().Message, "serviceaccount")
}
