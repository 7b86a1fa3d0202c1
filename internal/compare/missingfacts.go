package compare

import (
	"slices"
	"strings"

	"github.com/venturi-net/venturi/result"
)

// missingFacts are what could not be read, each with the machines where it could not.
type missingFacts struct {
	texts    []string
	machines map[string][]string
}

func (f *missingFacts) add(machine string, texts []string) {
	for _, text := range texts {
		if f.machines == nil {
			f.machines = map[string][]string{}
		}
		if !slices.Contains(f.texts, text) {
			f.texts = append(f.texts, text)
		}
		f.machines[text] = append(f.machines[text], machine)
	}
}

// warnings says each of them once.
func (f *missingFacts) warnings() (all []result.Warning) {
	for _, text := range f.texts {
		all = append(all, result.Warning{Code: "fact-missing", Text: strings.Join(f.machines[text], " and ") + ": " + text})
	}
	return all
}
