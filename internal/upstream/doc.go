// Command upstream says what OpenFn has published that this worker does not know.
//
//	go run ./internal/upstream
//
// It asks npm for the latest contract between Lightning and its worker (@openfn/lexicon), runtime
// (@openfn/runtime) and engine (@openfn/engine-multi), takes the names of fields, events, options, variables
// and errors out of them, and compares these with the table in docs/compatibility.md. What
// the table lacks, and each package that is another version than there, is a line; then it exits with 1. It exits
// with 2 when it could not look. What is new belongs into the table, with where it is handled and the test of it;
// then -names prints all names, for testdata/names.txt, by which a test holds the table without a network.
package main
