package journal

import (
	"os"
	"os/user"
	"strconv"
)

// User names the user who changes the host, and who became that by sudo, which the environment
// tells.
func User(getenv func(string) string) string {
	name := named(strconv.Itoa(os.Getuid()))
	if by := getenv("SUDO_USER"); by != "" && os.Getuid() == 0 {
		name += ", for " + by
		if id := getenv("SUDO_UID"); id != "" {
			name += " (uid " + id + ")"
		}
		name += " by sudo"
	}
	return name
}

func named(uid string) string {
	if u, err := user.LookupId(uid); err == nil {
		return u.Username + " (uid " + uid + ")"
	}
	return "uid " + uid
}
