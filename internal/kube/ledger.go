package kube

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/venturi-net/venturi/internal/host"
)

// The ConfigMap that has the cluster's own journal.
const (
	LedgerNamespace = "kube-system"
	LedgerName      = "venturi-tune"
)

// ledgerTries is how often a change is tried that somebody else's came before.
const ledgerTries = 8

// ReadLedger gives the entries of the cluster's journal. Where there is no journal there are none.
func (c *Client) ReadLedger(ctx context.Context) (map[string]string, error) {
	m, err := c.ledger(ctx)
	if m == nil {
		return nil, err
	}
	return m.Data, nil
}

// ledger reads the journal; nil: there is none.
func (c *Client) ledger(ctx context.Context) (*corev1.ConfigMap, error) {
	m := &corev1.ConfigMap{}
	err := c.get(ctx, configMaps, LedgerNamespace, LedgerName, m)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

// ChangeLedger changes the entries of the cluster's journal in one write. change may be called
// several times, each time with what stands there by then. The journal is created with its first
// entry, and removed with its last one.
func (c *Client) ChangeLedger(ctx context.Context, change func(entries map[string]string) error) error {
	for try := 1; ; try++ {
		err := c.changeLedger(ctx, change)
		if err == nil || try == ledgerTries || !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
			return err
		}
		if err := host.Sleep(ctx, pollEvery); err != nil {
			return err
		}
	}
}

func (c *Client) changeLedger(ctx context.Context, change func(map[string]string) error) error {
	m, err := c.ledger(ctx)
	if err != nil {
		return err
	}
	missing := m == nil
	if missing {
		m = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: LedgerName, Namespace: LedgerNamespace, Labels: map[string]string{managedLabel: manager}}}
	}
	entries := map[string]string{}
	maps.Copy(entries, m.Data)
	if err := change(entries); err != nil || maps.Equal(entries, m.Data) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, CallLimit)
	defer cancel()
	m.Data = entries
	switch {
	case missing:
		return c.create(ctx, configMaps, LedgerNamespace, m, &corev1.ConfigMap{})
	case len(entries) == 0:
		err = c.request(c.rest[""].Delete(), configMaps, LedgerNamespace).Name(LedgerName).
			Body(&metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &m.UID, ResourceVersion: &m.ResourceVersion}}).Do(ctx).Error()
		return c.failure("delete", configMaps, LedgerNamespace, err)
	}
	err = c.request(c.rest[""].Put(), configMaps, LedgerNamespace).Name(LedgerName).
		VersionedParams(&metav1.UpdateOptions{FieldManager: manager}, c.params).Body(m).Do(ctx).Error()
	return c.failure("update", configMaps, LedgerNamespace, err)
}
