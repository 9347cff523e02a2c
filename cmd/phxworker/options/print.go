package options

import (
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Print writes the values as a config file that comes to the same settings: each
// option that was set, with where. Defaults stand in comments, so that the file says
// what was chosen and no more, and so do secrets and what must not be in a file.
func (v *Values) Print(w io.Writer) error {
	var b strings.Builder
	for group := range other + 1 {
		var rows []row
		for _, o := range Table() {
			if o.Group == group {
				rows = append(rows, v.rows(o)...)
			}
		}
		if len(rows) == 0 {
			continue
		}
		fmt.Fprintf(&b, "# %s\n", group)
		width := 0
		for _, r := range rows {
			if r.comment != "" && len(r.text) <= alignUpTo {
				width = max(width, len(r.text))
			}
		}
		for _, r := range rows {
			fmt.Fprintln(&b, strings.TrimRight(fmt.Sprintf("%-*s  %s", width, r.text, r.comment), " "))
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, strings.TrimSuffix(b.String(), "\n"))
	return err
}

// alignUpTo is from which length on a value does not push its neighbours' comments
// to the right.
const alignUpTo = 56

// row is one line of what is printed.
type row struct{ text, comment string }

// rows returns what is printed for the option: one line, or none.
func (v *Values) rows(o Option) []row {
	remark := func(format string, args ...any) []row {
		return []row{{text: "# " + o.Key() + ": " + fmt.Sprintf(format, args...)}}
	}
	_, set := v.set(o.Key())
	found := v.effective(o.Key())
	by, beaten := v.beaten(o.Key())
	switch {
	case !set && (o.Group == other || o.Key() == "socket-timeout"):
		return nil
	case o.Key() == "socket-timeout":
		return remark("deprecated, it is called message-timeout now")
	case found.text == "" && o.Key() == repoKey:
		return []row{{text: "# " + repoKey + ": " + defaultFolder(), comment: "# default"}}
	case found.text == "":
		return remark("not set")
	case beaten:
		return remark("not used, for %s is set", by.place)
	case o.Secret || holdsSecret(found.text):
		return remark("set, from %s", found.place)
	case o.Key() == configKey:
		return remark("%s, from %s", found.text, found.place)
	}
	text := o.Key() + ": " + o.yaml(found.text)
	if found.rank == byDefault {
		return []row{{text: "# " + text, comment: "# default"}}
	}
	return []row{{text: text, comment: "# from " + found.place}}
}

// defaultFolder returns where adaptors are unless the options say otherwise.
func defaultFolder() string {
	dir, err := DefaultRepoDir()
	if err != nil {
		return "none, for there is no cache folder"
	}
	return dir
}

// effective returns what counts for an option: its own value, or that of another
// one which says the same.
func (v *Values) effective(key string) value {
	_, set := v.set(key)
	old, isOld := v.set("socket-timeout")
	switch {
	case key == "engine":
		return v.chosenEngine()
	case key == "message-timeout" && !set && isOld:
		return old
	}
	return v.byKey[key]
}

// holdsSecret reports whether the text is a URL with a password or a query, which
// can hold a token.
func holdsSecret(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && (u.User != nil || u.RawQuery != "")
}

// yaml returns the value as a config file has it, on one line.
func (o Option) yaml(text string) string {
	node := &yaml.Node{Kind: yaml.ScalarNode, Value: text}
	switch {
	case o.Kind == List:
		node = &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		for _, item := range items(text) {
			node.Content = append(node.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: item})
		}
	case strings.ContainsAny(text, "\r\n"):
		node.Tag, node.Style = "!!str", yaml.DoubleQuotedStyle
	case o.Kind == Text && !slices.Contains([]string{"!!int", "!!float"}, node.ShortTag()):
		node.Tag = "!!str" // quotes what would be read as something else
	}
	data, err := yaml.Marshal(node)
	if err != nil {
		return fmt.Sprintf("%q", text)
	}
	return strings.TrimSuffix(string(data), "\n")
}
