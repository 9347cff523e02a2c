package compile

const (
	// maxNesting bounds how deep a body may nest. The parser and the analysis recurse, and a Go stack that reaches
	// its limit ends the process, with no way to recover. The parser needs about 5 KB a level, the limit is 1 GB.
	maxNesting = 50_000
	// maxParameterNesting bounds arrow functions inside the parameters of arrow functions: the parser reads each such
	// list twice, so every level doubles the time.
	maxParameterNesting = 8
)

// tooNested reports the offset at which source goes beyond what the parser can be trusted with, or -1. It errs on the
// safe side and knows no grammar: all that follows since the last comma or semicolon, at each level of brackets,
// counts as nested, for so it is in `a = b = c` and `if (a) if (b)`.
func tooNested(source string) int {
	type level struct{ start, arrows int }
	var levels []level
	depth, arrows := 0, 0 // arrows: how deep parameter lists nest in what was read of the current level
	for i := 0; i < len(source); i++ {
		switch c := source[i]; c {
		case '(', '[', '{':
			levels = append(levels, level{start: depth, arrows: arrows})
			depth, arrows = depth+1, 0
		case ')', ']', '}':
			if n := len(levels) - 1; n >= 0 {
				if c == ')' && arrowFollows(source[i+1:]) {
					arrows++
				}
				depth, arrows = levels[n].start+1, max(arrows, levels[n].arrows)
				levels = levels[:n]
			}
		case ',', ';':
			depth = 0
			if n := len(levels) - 1; n >= 0 {
				depth = levels[n].start + 1
			}
		default:
			if c > ' ' && (!isWordByte(c) || i == 0 || !isWordByte(source[i-1])) {
				depth++
			}
		}
		if depth > maxNesting || arrows > maxParameterNesting {
			return i
		}
	}
	return -1
}

// arrowFollows reports whether text starts with `=>` but for white space.
func arrowFollows(text string) bool {
	for i := 0; i+1 < len(text); i++ {
		if text[i] > ' ' {
			return text[i] == '=' && text[i+1] == '>'
		}
	}
	return false
}
