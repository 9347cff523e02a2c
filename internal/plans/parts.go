package plans

import (
	"encoding/json"
	"fmt"
	"strings"
)

const (
	ok = "fn(s => s)"
	no = "fn(() => { throw new Error('no'); })"
)

var tooLarge = strings.Repeat("x=1;", 1<<17)

func of(jobs, edges string) json.RawMessage {
	return json.RawMessage(`{"id":"known","jobs":[` + jobs + `],"edges":[` + edges + `]}`)
}

func job(id, body string) string {
	return fmt.Sprintf(`{"id":%q,"adaptor":"@openfn/language-common@3.3.4","body":%q}`, id, body)
}

// edges returns edges that are written as "a>b".
func edges(all ...string) string {
	var list []string
	for _, one := range all {
		from, to, _ := strings.Cut(one, ">")
		list = append(list, fmt.Sprintf(`{"source_job_id":%q,"target_job_id":%q}`, from, to))
	}
	return strings.Join(list, ",")
}

// layers returns jobs without code and the edges between them: two in each layer, all connected with all of the next.
func layers(n int) (nodes, links string) {
	var all, between []string
	for i := range n {
		for _, from := range []string{"a", "b"} {
			all = append(all, fmt.Sprintf(`{"id":"%s%d"}`, from, i))
			for _, to := range []string{"a", "b"} {
				if i+1 < n {
					between = append(between, fmt.Sprintf("%s%d>%s%d", from, i, to, i+1))
				}
			}
		}
	}
	return strings.Join(all, ","), edges(between...)
}
