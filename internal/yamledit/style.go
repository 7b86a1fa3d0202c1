package yamledit

import (
	"regexp"
	"slices"

	"go.yaml.in/yaml/v3"
)

// quoteStyles are the styles of text in quotes.
const quoteStyles = yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle

// commonStyles gives the quotes that most keys of a mapping are in, and most values.
func commonStyles(n *yaml.Node) (keys, values yaml.Style) {
	var keyed, valued []*yaml.Node
	for i, c := range n.Content {
		if i%2 == 0 {
			keyed = append(keyed, c)
		} else {
			valued = append(valued, c)
		}
	}
	return commonStyle(keyed), commonStyle(valued)
}

func commonStyle(nodes []*yaml.Node) (style yaml.Style) {
	count := map[yaml.Style]int{}
	for _, n := range nodes {
		if n.Kind == yaml.ScalarNode && n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) == 0 {
			count[n.Style&quoteStyles]++
		}
	}
	for _, s := range []yaml.Style{yaml.DoubleQuotedStyle, yaml.SingleQuotedStyle} {
		if count[s] > count[style] {
			style = s
		}
	}
	return style
}

// render writes a scalar in a style.
func (s Scalar) render(style yaml.Style, flow bool) string {
	if s.Bare {
		return s.Text
	}
	return renderText(s.Text, style, flow)
}

// renderText writes a string in quotes of a style; without any where it would be
// read as a string.
func renderText(text string, style yaml.Style, flow bool) string {
	switch {
	case style&yaml.SingleQuotedStyle != 0:
		return "'" + text + "'"
	case style&yaml.DoubleQuotedStyle == 0 && readsAsText(text, flow):
		return text
	}
	return `"` + text + `"`
}

// plain is what may be in a value of ours: nothing that a quote could be ended by.
var plain = regexp.MustCompile(`^[-A-Za-z0-9_.,:/=+]*$`)

// IsPlain reports whether a text needs no escapes, whatever quotes it stands in.
func IsPlain(text string) bool { return plain.MatchString(text) }

// booleanWords are words that some parsers of YAML take for true and false.
var booleanWords = regexp.MustCompile(`^(?i:y|yes|n|no|on|off|true|false|null)$`)

// wordStart: it begins with a letter, a digit or a dash that an argument begins with.
var wordStart = regexp.MustCompile(`^(--)?[A-Za-z0-9]`)

// readsAsText tells whether a text without quotes is a string to all parsers of YAML.
func readsAsText(text string, flow bool) bool {
	digits := regexp.MustCompile(`^[0-9.:_]+$`).MatchString(text)
	if !wordStart.MatchString(text) || booleanWords.MatchString(text) || digits || text[len(text)-1] == ':' {
		return false
	}
	if flow && slices.ContainsFunc([]byte(text), func(b byte) bool { return b == ',' || b == ':' }) {
		return false
	}
	return (&yaml.Node{Kind: yaml.ScalarNode, Value: text}).ShortTag() == "!!str"
}
