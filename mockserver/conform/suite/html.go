package suite

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"time"
)

//go:embed report.html
var page string

var pageTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"ms":    func(d time.Duration) string { return d.Round(time.Millisecond).String() },
	"arrow": arrow,
}).Parse(page))

// WriteHTML writes the report as one page that needs no other file: each failed case with what was
// expected and why, and its frames.
func (r *Report) WriteHTML(w io.Writer) error {
	type row struct {
		Result

		Red bool
	}
	rows := make([]row, len(r.Results))
	for i, result := range r.Results {
		rows[i] = row{Result: result, Red: r.Red(result)}
	}
	err := pageTemplate.Execute(w, struct {
		*Report

		Rows []row
	}{r, rows})
	if err != nil {
		return fmt.Errorf("write the report as HTML: %w", err)
	}
	return nil
}
