//go:build !386 && !arm

package vm

import (
	"unsafe"

	lib "modernc.org/libquickjs"
)

// null is one of the engine's values, which are a word and a tag where addresses have 64 bits.
var null = lib.TJSValue{Ftag: lib.EJS_TAG_NULL}

func tagOf(v lib.TJSValue) int32 { return int32(v.Ftag) }

func int32Of(v lib.TJSValue) int32 { return int32(*(*uint64)(unsafe.Pointer(&v))) }

func float64Of(v lib.TJSValue) float64 { return *(*float64)(unsafe.Pointer(&v)) }

func addressOf(v lib.TJSValue) uintptr { return *(*uintptr)(unsafe.Pointer(&v)) }
