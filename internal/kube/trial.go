package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
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
		if list.Items[i].Status.Phase != corev1.PodFailed || !p.has(&list.Items[i], leaseRole) {
			continue
		}
		reason := "it does not say why"
		if said := new(verr.Error); errors.As(stuck(&list.Items[i], 0), &said) {
			reason = said.Reason
		}
		return verr.New(verr.Failed, "cannot begin a trial", "the pod that undoes it when its time ends has failed: "+reason,
			"ask an administrator to apply what `kubectl venturi rbac tune --trial` prints; the image must have this version of venturi")
	}
	return nil
}

// TrialBeginLimit is how long a command may take from the creation of a trial's Job until the trial
// is in the cluster's journal. The Job of one that is not there by then is a killed command's.
const TrialBeginLimit = 10 * time.Minute

// sweepTrials removes what trials have left that are over. Error: one goes on.
func (c *Client) sweepTrials(ctx context.Context, namespace string) error {
	found, err := c.find(ctx, namespace, trialSelector, TrialName)
	if err != nil || len(found.jobs) == 0 {
		return err
	}
	recorded, err := c.recordedTrials(ctx)
	if err != nil {
		return err
	}
	for _, j := range found.jobs {
		age := c.Now().Sub(j.CreationTimestamp.Time)
		if live(j) && (recorded[j.Labels[trialLabel]] || age < TrialBeginLimit) {
			return verr.New(verr.Busy, "cannot begin a trial", fmt.Sprintf("another trial is in progress: %s, begun %s ago", j.Annotations[commandAnnotation], age.Round(time.Second)),
				"end it with `kubectl venturi confirm` or `kubectl venturi undo`, and try again a few seconds later; `kubectl venturi cleanup` removes one that was killed before it changed anything")
		}
	}
	return c.removeTrials(ctx, found.jobs)
}

// cleanTrials removes the Jobs of trials that the cluster's journal does not have: a command was killed
// before it changed anything, or what it has changed was undone. What undoes others stays.
func (c *Client) cleanTrials(ctx context.Context, namespace string) (removed []string, err error) {
	found, err := c.find(ctx, namespace, trialSelector, TrialName)
	if err != nil || len(found.jobs) == 0 {
		return nil, err
	}
	recorded, err := c.recordedTrials(ctx)
	if verr.Code(err) == verr.Permission {
		return nil, nil // who may not read the journal has no trials
	}
	if err != nil {
		return nil, err
	}
	jobs := slices.DeleteFunc(found.jobs, func(j batchv1.Job) bool { return recorded[j.Labels[trialLabel]] })
	for _, j := range jobs {
		removed = append(removed, "job "+j.Namespace+"/"+j.Name)
	}
	return removed, c.removeTrials(ctx, jobs)
}

// removeTrials removes the Jobs of trials, and waits until their pods are gone.
func (c *Client) removeTrials(ctx context.Context, jobs []batchv1.Job) error {
	if _, err := c.removeFound(ctx, Leftovers{jobs: jobs}); err != nil {
		return err
	}
	for _, j := range jobs {
		if err := c.waitGone(ctx, j.Namespace, trialSelector+"="+j.Labels[trialLabel], TrialName); err != nil {
			return err
		}
	}
	return nil
}

// recordedTrials are the tokens of all transactions in the cluster's journal.
func (c *Client) recordedTrials(ctx context.Context) (map[string]bool, error) {
	entries, err := c.ReadLedger(ctx)
	tokens := map[string]bool{}
	for _, text := range entries {
		var entry struct{ Token string }
		if err := json.Unmarshal([]byte(text), &entry); err != nil {
			return nil, fmt.Errorf("read the cluster's journal: %w", err)
		}
		tokens[entry.Token] = true
	}
	return tokens, err
}

// trialError tells what a trial lacks, where that is why its Job was not created.
func (r *run) trialError(err error) error {
	if r.trial == nil || !apierrors.IsNotFound(err) && !noServiceAccount(err) {
		return err
	}
	return &verr.Error{Code: verr.Missing, Summary: "cannot begin a trial", Reason: "the cluster has no service account " + r.namespace + "/" + TrialName + ", whose pod undoes it when its time ends", Err: err,
		Hint: "ask an administrator to apply, once, what `kubectl venturi rbac tune --trial` prints"}
}

// Now is the time by the API server's clock, as far as that was heard.
func (c *Client) Now() time.Time { return c.clock.now() }
