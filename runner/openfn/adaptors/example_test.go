package adaptors_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/phxworker/phxworker/runner/openfn/adaptors"
)

// Specifiers come from plans; what npm would take for something else never
// reaches it.
func ExampleRepo_Resolve() {
	repo, err := adaptors.Open(adaptors.Config{Dir: "adaptors"})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = repo.Resolve(context.Background(), "@openfn/language-http@https://example.com/x.tgz", nil)
	if install, ok := errors.AsType[*adaptors.InstallError](err); ok {
		fmt.Println(install.Specifier)
		fmt.Println(install.Reason)
	}
	// Output:
	// @openfn/language-http@https://example.com/x.tgz
	// the version must be exact, such as 1.2.3, or a tag, such as latest
}
