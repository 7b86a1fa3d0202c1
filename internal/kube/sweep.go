package kube

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/venturi-net/venturi/internal/host"
	"github.com/venturi-net/venturi/internal/verr"
)

// ownSelector selects all that any run has made.
const ownSelector = managedLabel + "=" + manager + "," + runLabel

// sayEvery is how often a command that waits tells for what.
const sayEvery = time.Minute

// overdueAfter is how long after its deadline a Job may be there.
const overdueAfter = time.Minute

// removalLimit is how long Kubernetes may take to remove what a run has made.
const removalLimit = 60 * time.Second

// Leftovers are what runs have made and is still there.
type Leftovers struct {
	namespaces []corev1.Namespace
	jobs       []batchv1.Job
}

// find looks for what has a label, and for Jobs the name, of what only one run can create, in one namespace or,
// where it is empty, in all.
func (c *Client) find(ctx context.Context, namespace, selector, name string) (found Leftovers, err error) {
	if namespace == "" {
		var list corev1.NamespaceList
		if err := c.list(ctx, namespaces, "", selector, &list); err != nil {
			return found, err
		}
		found.namespaces = ownNamespaces(list)
	}
	var list batchv1.JobList
	err = c.list(ctx, jobs, namespace, selector, &list)
	found.jobs = slices.DeleteFunc(list.Items, func(j batchv1.Job) bool { return !isClaim(j, name) })
	return found, err
}

// isClaim tells the Job of a run from one with its labels, which anybody can have made. It ends by itself.
func isClaim(j batchv1.Job, name string) bool {
	return j.Name == name && j.Spec.ActiveDeadlineSeconds != nil
}

// isOwned tells whether something belongs to a Job of that name, and to none of some others.
func isOwned(m metav1.ObjectMeta, name string, others []batchv1.Job) bool {
	return slices.ContainsFunc(m.OwnerReferences, func(o metav1.OwnerReference) bool {
		return o.Kind == "Job" && o.Name == name && !slices.ContainsFunc(others, func(j batchv1.Job) bool { return j.UID == o.UID })
	})
}

// ownNamespaces are those that runs have made: a copy of one has its labels, but another name.
func ownNamespaces(list corev1.NamespaceList) []corev1.Namespace {
	return slices.DeleteFunc(list.Items, func(n corev1.Namespace) bool { return n.Name != claimName })
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

// overdue tells whether the Job of a run should have ended: past its deadline, or suspended for longer than a
// run waits for its pods.
func (c *Client) overdue(j batchv1.Job) bool {
	limit := time.Duration(*cmp.Or(j.Spec.ActiveDeadlineSeconds, new(int64)))*time.Second + overdueAfter
	if suspend := j.Spec.Suspend; suspend != nil && *suspend {
		limit = min(limit, podStartLimit)
	}
	return c.Now().Sub(j.CreationTimestamp.Time) > limit
}

// sweep removes what dead runs have left, and waits until it is gone. It refuses to disturb a
// run that goes on, or waits for its end.
func (c *Client) sweep(ctx context.Context, namespace string, wait bool, say func(string, ...any)) error {
	deadline := time.Now().Add(removalLimit)
	var said types.UID
	for saidAt := (time.Time{}); ; {
		found, err := c.find(ctx, namespace, ownSelector, claimName)
		if err != nil {
			return err
		}
		busy, err := c.removeDead(ctx, found)
		text, of := "leftovers of earlier runs to be removed", types.UID("")
		switch {
		case err != nil:
			return err
		case busy != nil:
			text, of = c.describe(busy), busy.UID
			if !wait {
				return verr.New(verr.Busy, "cannot measure in the cluster", "another run measures there: "+text,
					"run it again when that has ended, or add --wait; if that was killed, its pods end within half a minute")
			}
			deadline = time.Now().Add(removalLimit)
		case len(found.jobs)+len(found.namespaces) == 0:
			return nil
		case time.Now().After(deadline):
			return errStillThere(len(found.jobs) + len(found.namespaces))
		}
		if now := c.Now(); said != of || now.Sub(saidAt) >= sayEvery {
			said, saidAt = of, now
			say("waiting for %s", text)
		}
		if err := host.Sleep(ctx, 500*time.Millisecond); err != nil {
			return err
		}
	}
}

// describe tells whose run a Job is of, since when it goes on and how long it may.
func (c *Client) describe(j *batchv1.Job) string {
	age := c.Now().Sub(j.CreationTimestamp.Time).Round(time.Second)
	text := fmt.Sprintf("%s in namespace %s, which began %s ago", j.Annotations[commandAnnotation], cmp.Or(j.Namespace, j.Name), age)
	if limit := j.Spec.ActiveDeadlineSeconds; limit != nil {
		text += fmt.Sprintf(" and ends within %s", max(time.Duration(*limit)*time.Second-age, 0))
	}
	return text
}

// removeDead removes what belongs to no run that goes on, and gives one that does: its Job, or where
// that is about to come one with the names and the age of its namespace alone.
func (c *Client) removeDead(ctx context.Context, found Leftovers) (busy *batchv1.Job, err error) {
	var dead Leftovers
	used := map[string]bool{}
	for _, j := range found.jobs {
		if live(j) && !c.overdue(j) {
			used[j.Namespace], busy = true, &j
			continue
		}
		dead.jobs = append(dead.jobs, j)
	}
	for _, n := range found.namespaces {
		switch {
		case used[n.Name] || n.DeletionTimestamp != nil:
		case c.Now().Sub(n.CreationTimestamp.Time) < idleLimit && !slices.ContainsFunc(dead.jobs, func(j batchv1.Job) bool { return j.Namespace == n.Name }):
			busy = cmp.Or(busy, &batchv1.Job{ObjectMeta: n.ObjectMeta})
		default:
			dead.namespaces = append(dead.namespaces, n)
		}
	}
	_, err = c.removeFound(ctx, dead)
	return busy, err
}

// removeFound deletes what was found, and gives the names.
func (c *Client) removeFound(ctx context.Context, found Leftovers) (removed []string, err error) {
	for _, j := range found.jobs {
		if err := c.remove(ctx, jobs, j.ObjectMeta); err != nil {
			return removed, err
		}
		removed = append(removed, "job "+j.Namespace+"/"+j.Name)
	}
	for _, n := range found.namespaces {
		if err := c.remove(ctx, namespaces, n.ObjectMeta); err != nil {
			return removed, err
		}
		removed = append(removed, "namespace "+n.Name)
	}
	return removed, nil
}

// Cleanup removes all that runs have made, those that go on included, and waits until it is
// gone. It gives what was there. A trial that has changed something stays: its pods undo it.
func (c *Client) Cleanup(ctx context.Context, namespace string) (removed []string, err error) {
	found, err := c.find(ctx, namespace, ownSelector, claimName)
	if err != nil {
		return nil, err
	}
	if removed, err = c.removeFound(ctx, found); err != nil {
		return removed, err
	}
	if err := c.waitGone(ctx, namespace, ownSelector, claimName); err != nil {
		return removed, err
	}
	trials, err := c.cleanTrials(ctx, namespace)
	return append(removed, trials...), err
}

// waitGone waits until no pod of a Job is left in a namespace or, if it is empty, neither such a
// pod nor a namespace.
func (c *Client) waitGone(ctx context.Context, namespace, selector, job string) error {
	deadline := time.Now().Add(removalLimit)
	for {
		left, err := c.count(ctx, namespace, selector, job)
		if err == nil && left == 0 {
			return nil
		}
		if err == nil && time.Now().After(deadline) {
			err = errStillThere(left)
		}
		if err != nil {
			return err
		}
		if err := host.Sleep(ctx, 300*time.Millisecond); err != nil {
			return err
		}
	}
}

func errStillThere(objects int) error {
	return verr.New(verr.Failed, "cannot confirm that Venturi's objects are gone from the cluster", fmt.Sprintf("%d objects are still there after %v", objects, removalLimit),
		"see `kubectl get namespaces,jobs,pods -A -l "+Label+"`; a node that does not respond keeps its pods")
}

// count tells how much is left of the Jobs of a name that were removed. Pods of one that is there and stays
// are not: it is somebody else's, or has come since.
func (c *Client) count(ctx context.Context, namespace, selector, job string) (int, error) {
	var podList corev1.PodList
	err := c.list(ctx, pods, namespace, selector, &podList)
	var others batchv1.JobList
	if err == nil && len(podList.Items) > 0 {
		err = c.listBy(ctx, jobs, namespace, metav1.ListOptions{FieldSelector: "metadata.name=" + job}, &others)
	}
	stay := slices.DeleteFunc(others.Items, func(j batchv1.Job) bool { return j.DeletionTimestamp != nil })
	left := slices.DeleteFunc(podList.Items, func(p corev1.Pod) bool { return !isOwned(p.ObjectMeta, job, stay) })
	if err != nil || namespace != "" {
		return len(left), err
	}
	var list corev1.NamespaceList
	err = c.list(ctx, namespaces, "", selector, &list)
	return len(left) + len(ownNamespaces(list)), err
}
