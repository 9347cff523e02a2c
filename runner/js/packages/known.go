package packages

import "github.com/phxworker/phxworker/runner/js"

// overhead is what a package takes beside its chunks, roughly.
const overhead = 4 << 10

// known are packages that were used, of which those that were not used for longest go when they take too much memory. A run keeps its own.
type known struct {
	most, bytes int64
	uses        int64
	m           map[string]*use // by name and version
}

type use struct {
	one         *js.Package
	bytes, last int64
}

func (k *known) get(key string) *js.Package {
	found := k.m[key]
	if found == nil {
		return nil
	}
	k.uses++
	found.last = k.uses
	return found.one
}

func (k *known) put(one *js.Package) {
	if k.m == nil {
		k.m = make(map[string]*use)
	}
	key := one.Name + "@" + one.Version
	k.remove(key)
	k.uses++
	added := &use{one: one, bytes: overhead, last: k.uses}
	if one.Chunks != nil {
		added.bytes += one.Chunks.Bytes()
	}
	k.m[key] = added
	for k.bytes += added.bytes; k.bytes > k.most && len(k.m) > 1; {
		k.remove(k.oldest())
	}
}

func (k *known) oldest() (oldest string) {
	for key, one := range k.m {
		if oldest == "" || one.last < k.m[oldest].last {
			oldest = key
		}
	}
	return oldest
}

func (k *known) remove(key string) {
	if one := k.m[key]; one != nil {
		k.bytes -= one.bytes
		delete(k.m, key)
	}
}
