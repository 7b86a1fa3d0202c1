package doctor

import (
	"fmt"
	"maps"
	"slices"
)

var otherOwner = Rule{
	Facts: Facts{
		Code:     "other-owner",
		Title:    "Another program tunes this host too",
		Severity: Note,
		Looks:    "processes of irqbalance, tuned, bpftune and their like",
		Effect:   Impact{"it may write the same values again: tuned overwrites sysctls of a CNI when its profile changes, bpftune gives up those that somebody else writes", "tuned issue 816, bpftune", "C"},
		Do:       "let one program own each value; Venturi's undo leaves alone and reports what others have changed",
	},
	Check: func(v *View) (all []Finding) {
		for _, name := range slices.Sorted(maps.Keys(v.Owners)) {
			all = append(all, finding(nil, nil, Evidence{"process", fmt.Sprintf("%s, pid %d", name, v.Owners[name])}))
		}
		return all
	},
}

var notSeen = Rule{
	Facts: Facts{
		Code:     "not-seen",
		Title:    "Something could not be read",
		Severity: Note,
		Looks:    "what the kernel did not let this user read, or does not tell",
		Effect:   Impact{"problems there, if any, are not found", "this command", "C"},
		Do:       "run it as root, on the host itself rather than in a container",
	},
	Check: func(v *View) []Finding {
		if len(v.Unread) == 0 && v.hasInterval() {
			return nil
		}
		var all []Evidence
		for _, u := range v.Unread {
			all = append(all, Evidence{u.Subject, u.Reason})
		}
		if !v.hasInterval() {
			all = append(all, Evidence{"counters that grow", "they were read once, because of --interval 0"})
		}
		f := finding(nil, nil, all...)
		if len(v.Unread) == 0 {
			f.Do = "run it without --interval 0"
		}
		return []Finding{f}
	},
}
