package kube

import (
	"cmp"
	"context"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/verr"
)

// claimTries is how often a run tries to create what only one run can have, where there is
// something of that name and no run that has it.
const claimTries = 5

// claim removes what dead runs left, and creates the Job of this one. The API server creates
// an object of one name only once: of two runs that start in the same instant one gets it.
func (p *Placement) claim(ctx context.Context, wait bool, say func(string, ...any), role string) error {
	for try := 1; ; try++ {
		if err := p.client.sweep(ctx, p.run.Options.Namespace, wait, say); err != nil {
			return err
		}
		if p.run.trial != nil {
			if err := p.client.sweepTrials(ctx, p.run.namespace); err != nil {
				return err
			}
		}
		err := p.createJob(ctx, role)
		if p.created || !apierrors.IsAlreadyExists(err) {
			return p.run.trialError(err)
		}
		if try == claimTries {
			return verr.Wrap(verr.Failed, "cannot measure in the cluster", err, "remove the object of that name, which belongs to no run, or choose another namespace with -n")
		}
		if err := host.Sleep(ctx, time.Second); err != nil {
			return err
		}
	}
}

// createJob creates the Job and, unless the user named one, its namespace.
func (p *Placement) createJob(ctx context.Context, role string) error {
	r, c := p.run, p.client
	if r.Options.Namespace == "" && r.trial == nil {
		err := c.create(ctx, namespaces, "", r.namespaceObject(), &corev1.Namespace{})
		p.created = !apierrors.IsAlreadyExists(err) // the answer may be lost
		if err != nil {
			return err
		}
	}
	// A Job's pod that is not admitted shows as an event only. So ask first.
	if err := c.admitted(ctx, r.namespace, r.pod(role)); err != nil {
		return err
	}
	var job batchv1.Job
	err := c.create(ctx, jobs, r.namespace, r.job(role), &job)
	p.created = p.created || !apierrors.IsAlreadyExists(err)
	r.owner = &metav1.OwnerReference{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job", Name: job.Name, UID: job.UID}
	return err
}

// createPods creates the pods of roles, beside the Job's own.
func (p *Placement) createPods(ctx context.Context, roles []string) error {
	p.podUIDs = map[string]types.UID{}
	for _, role := range roles {
		var pod corev1.Pod
		if err := p.client.create(ctx, pods, p.run.namespace, p.run.pod(role), &pod); err != nil {
			return err
		}
		p.podUIDs[role] = pod.UID
	}
	return nil
}

// has tells the pod of a role from others in the namespace with its labels: it is the one that was
// created, or the Job's. Who may create pods can copy all that tells that one, but not be older.
func (p *Placement) has(pod *corev1.Pod, role string) bool {
	if uid, known := p.podUIDs[role]; known {
		return pod.UID == uid
	}
	controller := metav1.GetControllerOf(pod)
	job := cmp.Or(pod.Labels[batchv1.ControllerUidLabel], pod.Labels["controller-uid"]) // before Kubernetes 1.27
	return controller != nil && controller.UID == p.run.owner.UID && job == string(controller.UID) && pod.Labels[roleLabel] == role
}

// admissionTries is how often a pod is tried: the controllers give a new namespace its service
// account after it was made.
const admissionTries = 40

// admitted has the server judge a pod, and makes none.
func (c *Client) admitted(ctx context.Context, namespace string, pod *corev1.Pod) error {
	for try := 1; ; try++ {
		err := c.dryRun(ctx, pods, namespace, pod, &corev1.Pod{})
		if err == nil || try == admissionTries || !noServiceAccount(err) {
			return err
		}
		if err := host.Sleep(ctx, 250*time.Millisecond); err != nil {
			return err
		}
	}
}
