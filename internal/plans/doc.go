// Package plans makes plans that no sane workflow has, for tests of engines: ids that are
// twice there or nowhere, cycles, edges from nowhere, values of wrong types.
package plans
