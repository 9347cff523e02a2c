package demo

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// column is one column of a table.
type column struct {
	title string
	right bool // numbers stand at the right
}

// table lays rows out in columns, as wide as their widest cell, two spaces
// apart, with a rule under the titles.
func table(columns []column, rows [][]string) string {
	widths := make([]int, len(columns))
	for i, c := range columns {
		widths[i] = utf8.RuneCountInString(c.title)
		for _, row := range rows {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
	}
	var b strings.Builder
	line := func(cell func(i int) string) {
		var out strings.Builder
		for i, c := range columns {
			text := cell(i)
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text))
			if c.right {
				text = pad + text
			} else {
				text += pad
			}
			out.WriteString(text + "  ")
		}
		b.WriteString(strings.TrimRight(out.String(), " ") + "\n")
	}
	line(func(i int) string { return columns[i].title })
	line(func(i int) string { return strings.Repeat("─", widths[i]) })
	for _, row := range rows {
		line(func(i int) string { return row[i] })
	}
	return b.String()
}

// short writes a time with the precision that a person cares for.
func short(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}

// oneLine joins the lines of a text.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// cut shortens a text to so many characters.
func cut(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:width-1]) + "…"
}
