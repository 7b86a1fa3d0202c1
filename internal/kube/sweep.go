package kube

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/venturi-net/venturi/internal/verr"
)

// ownSelector selects all that any run has made.
const ownSelector = managedLabel + "=" + manager + "," + runLabel

// removalLimit is how long Kubernetes may take to remove what a run has made.
const removalLimit = 60 * time.Second

// Leftovers are what runs have made and is still there.
type Leftovers struct {
	namespaces []corev1.Namespace
	jobs       []batchv1.Job
}

// find looks in one namespace, or where it is empty, in all that runs have made.
func (c *Client) find(ctx context.Context, namespace string) (found Leftovers, err error) {
	if namespace != "" {
		var list batchv1.JobList
		err := c.list(ctx, jobs, namespace, ownSelector, &list)
		return Leftovers{jobs: list.Items}, err
	}
	var list corev1.NamespaceList
	if err := c.list(ctx, namespaces, "", ownSelector, &list); err != nil {
		return found, err
	}
	found.namespaces = list.Items
	for _, n := range list.Items {
		var inside batchv1.JobList
		if err := c.list(ctx, jobs, n.Name, ownSelector, &inside); err != nil {
			return found, err
		}
		found.jobs = append(found.jobs, inside.Items...)
	}
	return found, nil
}

// live tells whether somebody may still speak to the agents of a job. One without a pod is
// about to have one.
func live(j batchv1.Job) bool {
	for _, condition := range j.Status.Conditions {
		if condition.Status == corev1.ConditionTrue && (condition.Type == batchv1.JobComplete || condition.Type == batchv1.JobFailed) {
			return false
		}
	}
	return j.DeletionTimestamp == nil
}

// sweep removes what dead runs have left, and refuses to disturb one that goes on, or waits for
// its end.
func (c *Client) sweep(ctx context.Context, namespace string, wait bool, say func(string, ...any)) error {
	for said := false; ; said = true {
		found, err := c.find(ctx, namespace)
		if err != nil {
			return err
		}
		busy, err := c.removeDead(ctx, found)
		if err != nil || busy == nil {
			return err
		}
		text := fmt.Sprintf("%s in namespace %s, which began %s ago", busy.Annotations[commandAnnotation], busy.Namespace, time.Since(busy.CreationTimestamp.Time).Round(time.Second))
		if !wait {
			return verr.New(verr.Busy, "cannot measure in the cluster", "another run measures there: "+text,
				"wait for its end, or give --wait; if it was killed, its pods end by themselves in half a minute")
		}
		if !said {
			say("waiting for %s", text)
		}
		if err := pause(ctx, 2*time.Second); err != nil {
			return err
		}
	}
}

// removeDead removes what belongs to no run that goes on, and gives one that does.
func (c *Client) removeDead(ctx context.Context, found Leftovers) (busy *batchv1.Job, err error) {
	used := map[string]bool{}
	for _, j := range found.jobs {
		if live(j) {
			used[j.Namespace], busy = true, &j
			continue
		}
		if err := c.remove(ctx, jobs, j.Namespace, j.Name); err != nil {
			return nil, err
		}
	}
	for _, n := range found.namespaces {
		young := time.Since(n.CreationTimestamp.Time) < idleLimit // its job may be about to come
		if used[n.Name] || n.DeletionTimestamp != nil || young {
			continue
		}
		if err := c.remove(ctx, namespaces, "", n.Name); err != nil {
			return nil, err
		}
	}
	return busy, nil
}

// Cleanup removes all that runs have made, those that go on included, and waits until it is
// gone. It gives what was there.
func (c *Client) Cleanup(ctx context.Context, namespace string) (removed []string, err error) {
	found, err := c.find(ctx, namespace)
	if err != nil {
		return nil, err
	}
	for _, j := range found.jobs {
		if err := c.remove(ctx, jobs, j.Namespace, j.Name); err != nil {
			return removed, err
		}
		removed = append(removed, "job "+j.Namespace+"/"+j.Name)
	}
	for _, n := range found.namespaces {
		if err := c.remove(ctx, namespaces, "", n.Name); err != nil {
			return removed, err
		}
		removed = append(removed, "namespace "+n.Name)
	}
	return removed, c.waitGone(ctx, namespace, ownSelector)
}

// waitGone waits until no pod is left in a namespace, or no namespace if it is empty.
func (c *Client) waitGone(ctx context.Context, namespace, selector string) error {
	deadline := time.Now().Add(removalLimit)
	for {
		left, err := c.count(ctx, namespace, selector)
		if err == nil && left == 0 {
			return nil
		}
		if err == nil && time.Now().After(deadline) {
			err = verr.New(verr.Failed, "cannot see the end of what was made in the cluster", fmt.Sprintf("%d objects are still there after %v", left, removalLimit),
				"see `kubectl get namespaces,pods -A -l "+managedLabel+"="+manager+"`; a node that does not answer keeps its pods")
		}
		if err != nil {
			return err
		}
		if err := pause(ctx, 300*time.Millisecond); err != nil {
			return err
		}
	}
}

func (c *Client) count(ctx context.Context, namespace, selector string) (int, error) {
	if namespace == "" {
		var list corev1.NamespaceList
		err := c.list(ctx, namespaces, "", selector, &list)
		return len(list.Items), err
	}
	var list corev1.PodList
	err := c.list(ctx, pods, namespace, selector, &list)
	return len(list.Items), err
}

// pause waits, unless ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
