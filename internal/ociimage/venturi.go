package ociimage

// unprivileged is a user with no rights, so that pods need not name one to be accepted
// under the restricted level of PodSecurity.
const unprivileged = "65532:65532"

// Venturi is the image of a venturi binary, which runs without rights unless a pod says otherwise.
func Venturi(name, arch string, binary []byte) Image {
	return Image{
		Name: name, Arch: arch, User: unprivileged,
		Entrypoint: []string{"/venturi"},
		Labels: map[string]string{
			"org.opencontainers.image.title":    "venturi",
			"org.opencontainers.image.source":   "https://github.com/venturi-net/venturi",
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
		Files: []File{
			{Path: "tmp/", Mode: 0o1777},
			{Path: "venturi", Mode: 0o755, Data: binary},
		},
	}
}
