//go:build 386 || arm

package vm

import (
	"math"

	lib "modernc.org/libquickjs"
)

// The engine's values are numbers of which most are none, and stand for the rest, where addresses have 32 bits.

const (
	null = lib.TJSValue(lib.EJS_TAG_NULL << 32)
	// floats is what is added to a number, so that it looks like no tag.
	floats = (0x7ff80000 - lib.EJS_TAG_FIRST + 1) << 32
)

func tagOf(v lib.TJSValue) int32 {
	first := int32(lib.EJS_TAG_FIRST)
	tag := int32(v >> 32)
	if uint32(tag)-uint32(first) >= uint32(lib.EJS_TAG_FLOAT64-first) {
		return lib.EJS_TAG_FLOAT64
	}
	return tag
}

func int32Of(v lib.TJSValue) int32 { return int32(v) }

func float64Of(v lib.TJSValue) float64 { return math.Float64frombits(uint64(v) + floats) }

func addressOf(v lib.TJSValue) uintptr { return uintptr(v) }
