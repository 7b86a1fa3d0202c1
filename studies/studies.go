// Package studies holds the study files that come with Venturi. What a study
// file may say is written in docs/studies/README.md.
package studies

import "embed"

// Files are the study files: NAME.yaml.
//
//go:embed *.yaml
var Files embed.FS
