// Package logs keeps a log readable when something goes wrong over and over.
package logs
