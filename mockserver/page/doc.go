// Package page is what a mock server shows to a person with a browser: its runs, what happened in
// each of them step by step, its workers and its faults. It queues runs, too.
//
//	server, err := mockserver.Start(mockserver.Config{Page: page.New(nil)})
//	// open server.HTTPURL() in a browser
//
// Everything it shows is read from the server at that moment, by what package mockserver exports: a
// program can read the same. The documents are whole without their script, which only keeps them up to
// date. They load a style and a script from the server and nothing else, and the policy that comes with them
// lets them do no more.
//
// Who may ask is decided by the server: no page of another origin, and over loopback no name that such a page could have.
package page
