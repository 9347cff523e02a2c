package examples_test

import (
	"fmt"

	"github.com/phxworker/phxworker/examples"
)

func ExampleAll() {
	all, err := examples.All()
	if err != nil {
		fmt.Println(err)
	}
	for _, e := range all {
		if e.Queue == "fast_lane" {
			fmt.Println(e.Name, e.Expect.Reason)
		}
	}
	// Output:
	// webhook-lookup success
	// webhook-reply success
}
