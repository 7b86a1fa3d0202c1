package knob

import "slices"

// manifestKnobs are the settings of a cluster's network, in the files that
// somebody will apply to it.
func manifestKnobs() []Entry {
	return slices.Concat(
		kubeOVNKnobs(),
		ciliumRouting(), ciliumServices(), ciliumDatapath(),
		calicoPoolKnobs(), calicoFelixKnobs(),
		kubeProxyKnobs(),
	)
}
