package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/venturi-net/venturi/internal/verr"
)

// TrialName is what a trial's Job is called, of which there is one at a time, and the service
// account whose rights its pod has. Without a namespace of the user's, that of both is called so, too.
const TrialName = manager + "-trial"

// trialSelector selects all that any trial has made.
const trialSelector = managedLabel + "=" + manager + "," + trialLabel

// trialRetries is how often the pod of a trial is started again that has failed.
const trialRetries = 100

// toleratesAll is the toleration of pods that must be on a node, whatever its taints.
var toleratesAll = corev1.Toleration{Operator: corev1.TolerationOpExists}

// holdsTrial makes a pod the one that ends a trial. It is in the network of its node, because what
// is on trial may be that of pods, and leaves a node that is lost.
func (r *run) holdsTrial(p *corev1.Pod) {
	p.Spec.ServiceAccountName, p.Spec.AutomountServiceAccountToken, p.Spec.HostNetwork = TrialName, new(true), true
	p.Spec.Tolerations = slices.DeleteFunc(slices.Clone(r.Tolerations), func(t corev1.Toleration) bool { return t == toleratesAll })
	c := &p.Spec.Containers[0]
	c.Name, c.Command, c.TerminationMessagePolicy = "lease", slices.Concat([]string{program}, r.trial), corev1.TerminationMessageFallbackToLogsOnError
}

// TrialFailure tells why the pod that ends a trial has failed; nil: it has not.
func (p *Placement) TrialFailure(ctx context.Context) error {
	var list corev1.PodList
	if err := p.client.list(ctx, pods, p.run.namespace, p.run.selector()+","+roleLabel+"="+leaseRole, &list); err != nil {
		return err
	}
	for i := range list.Items {
		if list.Items[i].Status.Phase != corev1.PodFailed {
			continue
		}
		reason := "it does not say why"
		if said := new(verr.Error); errors.As(stuck(&list.Items[i], 0), &said) {
			reason = said.Reason
		}
		return verr.New(verr.Failed, "cannot begin a trial", "the pod that undoes it when its time ends has failed: "+reason,
			"an administrator applies what `kubectl venturi rbac tune --trial` prints; the image must be that of this version of venturi")
	}
	return nil
}

// sweepTrials removes what trials have left that are over. Error: one goes on.
func (c *Client) sweepTrials(ctx context.Context, namespace string) error {
	found, err := c.find(ctx, namespace, trialSelector)
	if err != nil || len(found.jobs) == 0 {
		return err
	}
	for _, j := range found.jobs {
		if live(j) {
			return verr.New(verr.Busy, "cannot begin a trial", fmt.Sprintf("another one goes on: %s, which began %s ago", j.Annotations[commandAnnotation], c.Now().Sub(j.CreationTimestamp.Time).Round(time.Second)),
				"end it with `kubectl venturi confirm` or `kubectl venturi undo`; it is gone a few seconds later")
		}
	}
	if _, err := c.removeFound(ctx, found); err != nil {
		return err
	}
	return c.waitGone(ctx, namespace, trialSelector)
}

// trialError tells what a trial lacks, where that is why its Job was not created.
func (r *run) trialError(err error) error {
	if r.trial == nil || !apierrors.IsNotFound(err) && !noServiceAccount(err) {
		return err
	}
	return &verr.Error{Code: verr.Missing, Summary: "cannot begin a trial", Reason: "the cluster has no service account " + r.namespace + "/" + TrialName + ", whose pod undoes it when its time ends", Err: err,
		Hint: "an administrator applies, once, what `kubectl venturi rbac tune --trial` prints"}
}

// Now is the time by the API server's clock, as far as that was heard.
func (c *Client) Now() time.Time { return c.clock.now() }

// CheckNodes asks the API server for every right that it takes to reach nodes.
func (c *Client) CheckNodes(ctx context.Context, o Options) error {
	return c.checkRights(ctx, o.nodeNeeds())
}
