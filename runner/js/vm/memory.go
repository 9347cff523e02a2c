package vm

import (
	"cmp"
	"slices"
	"unsafe"

	"modernc.org/libc"
)

// memory is all that one engine has allocated. Its zero value but for tls is ready to use, by one goroutine at a time.
//
// The engine asks for cells of nearly 4 kB, in which it keeps what is small, and for what is larger than goes into one of their parts. Cells
// are carved from slabs. All else is too until the picture is taken, so that slabs are all that a picture is of, and a little of it afterwards; the
// rest are blocks of libc's, which rounds them up to powers of two.
type memory struct {
	tls    *libc.TLS
	slabs  []slab    // cells are carved from the last one
	free   []uintptr // cells that the engine has no more use for
	tried  int       // how many were free after trim
	blocks []uintptr // of libc's, that are in no slab
	loose  uintptr   // bytes that may be carved for what is no cell, and is lost when the engine has no more use for it

	// Of the picture: how many slabs it has, and the cells that were free. No slab has one before it is taken.
	pictured int
	wereFree []uintptr
}

// slab is a part of memory. What is between base and next is in use.
type slab struct {
	base, next, end uintptr
	// picture has the bytes of its part that was in use when the picture was taken; 0 for none.
	picture, size uintptr
}

// header stands before each allocation. The engine aligns to 8 bytes.
type header struct {
	size uintptr // that may be used
	at   int     // in blocks, or one of these
}

const (
	headerSize = unsafe.Sizeof(header{})
	inSlab     = -1
	aCell      = -2 // in a slab
	// cellSize is the most that the engine asks for to keep small things in, and smallestCell is less than that ever is.
	cellSize, smallestCell = 4096, 4096 - 512
	cellRoom               = (headerSize + cellSize + 15) &^ 15 // with its header
	// slabSize is that of slabs of a picture, and moreSize of those that come later: libc gives memory back to the system but for 4 MB of
	// each size, and what is never touched takes none. Both leave room for what libc puts before them.
	slabSize, moreSize = 64<<10 - 64, 4<<20 - 64
	// mostLoose and looseSize bound what is carved after the picture was taken, in all and at a time.
	mostLoose, looseSize = 1 << 20, 128 << 10
)

// at returns what is at an address of memory that is not Go's.
func at[T any](address uintptr) *T {
	return *(**T)(unsafe.Pointer(&address))
}

func bytesAt(address, size uintptr) []byte { return unsafe.Slice(at[byte](address), size) }

func headerOf(address uintptr) *header { return at[header](address - headerSize) }

// allocate returns the address of size bytes or some more, 0 if there are none.
func (m *memory) allocate(size uintptr) uintptr {
	if size > smallestCell && size <= cellSize {
		if last := len(m.free) - 1; last >= 0 {
			address := m.free[last]
			m.free = m.free[:last]
			return address
		}
		return m.carve(cellSize, aCell)
	}
	if m.pictured == 0 {
		return m.carve(size, inSlab)
	}
	if size <= min(m.loose, looseSize) {
		m.loose -= size
		return m.carve(size, inSlab)
	}
	base := libc.Xmalloc(m.tls, libc.Tsize_t(headerSize+size))
	if base == 0 {
		return 0
	}
	*at[header](base) = header{size: m.usable(base), at: len(m.blocks)}
	m.blocks = append(m.blocks, base)
	return base + headerSize
}

// usable is how much of a block of libc's may be used: often more than was asked for, so that what grows needs not be moved.
func (m *memory) usable(base uintptr) uintptr {
	return uintptr(libc.Xmalloc_usable_size(m.tls, base)) - headerSize
}

// carve takes size bytes from the last slab, or from a new one.
func (m *memory) carve(size uintptr, kind int) uintptr {
	need := (headerSize + size + 15) &^ 15
	last := len(m.slabs) - 1
	if last < 0 || m.slabs[last].end-m.slabs[last].next < need {
		room := max(need, slabSize)
		if m.pictured > 0 {
			room = moreSize // nothing larger is carved any more
		}
		base := libc.Xmalloc(m.tls, libc.Tsize_t(room))
		if base == 0 {
			return 0
		}
		m.slabs = append(m.slabs, slab{base: base, next: base, end: base + room})
		last++
	}
	base := m.slabs[last].next
	m.slabs[last].next += need
	*at[header](base) = header{size: size, at: kind}
	return base + headerSize
}

// release gives back an allocation. What is in a slab and no cell is not used again before the memory is restored.
func (m *memory) release(address uintptr) {
	switch place := headerOf(address).at; place {
	case inSlab:
	case aCell:
		m.free = append(m.free, address)
	default:
		last := len(m.blocks) - 1
		moved := m.blocks[last]
		m.blocks[place], at[header](moved).at = moved, place
		m.blocks = m.blocks[:last]
		libc.Xfree(m.tls, address-headerSize)
	}
}

// resize returns the address of an allocation that has size bytes now, 0 if there are none: then it is as it was.
func (m *memory) resize(address, size uintptr) uintptr {
	h := headerOf(address)
	if size <= h.size {
		return address
	}
	if h.at >= 0 {
		base := libc.Xrealloc(m.tls, address-headerSize, libc.Tsize_t(headerSize+size))
		if base == 0 {
			return 0
		}
		h = at[header](base)
		h.size, m.blocks[h.at] = m.usable(base), base
		return base + headerSize
	}
	moved := m.allocate(size)
	if moved != 0 {
		copy(bytesAt(moved, size), bytesAt(address, h.size))
		m.release(address)
	}
	return moved
}

// idle is how many bytes the free cells take.
func (m *memory) idle() uintptr { return uintptr(len(m.free)) * cellRoom }

// trim frees the slabs in which nothing but free cells is, if there are many more than those it could not free.
func (m *memory) trim() {
	if m.idle() < uintptr(m.tried)*cellRoom+moreSize/2 {
		return
	}
	sorted := slices.SortedFunc(slices.Values(m.slabs[m.pictured:]), func(a, b slab) int { return cmp.Compare(a.base, b.base) })
	find := func(address uintptr) (int, bool) {
		return slices.BinarySearchFunc(sorted, address, func(s slab, address uintptr) int {
			if s.base <= address && address < s.end {
				return 0
			}
			return cmp.Compare(s.base, address)
		})
	}
	unused := make([]uintptr, len(sorted)) // bytes of each
	for _, address := range m.free {
		if i, found := find(address); found {
			unused[i] += cellRoom
		}
	}
	spare := func(address uintptr) bool {
		i, found := find(address)
		return found && unused[i] == sorted[i].next-sorted[i].base
	}
	m.free = slices.DeleteFunc(m.free, spare)
	kept := m.slabs[:m.pictured:m.pictured]
	for _, s := range m.slabs[m.pictured:] {
		if !spare(s.base) {
			kept = append(kept, s)
			continue
		}
		libc.Xfree(m.tls, s.base)
	}
	m.slabs, m.tried = kept, len(m.free)
}

// picture keeps what all bytes are now, for restore. It reports whether there was memory for that.
func (m *memory) picture() bool {
	for i := range m.slabs {
		s := &m.slabs[i]
		s.size = s.next - s.base
		if s.picture = libc.Xmalloc(m.tls, libc.Tsize_t(s.size)); s.picture == 0 {
			return false
		}
		copy(bytesAt(s.picture, s.size), bytesAt(s.base, s.size))
	}
	m.pictured, m.wereFree, m.loose = len(m.slabs), slices.Clone(m.free), mostLoose
	return true
}

// restore makes all bytes what they were when the picture was taken, and frees what was allocated since.
func (m *memory) restore() {
	m.drop(m.pictured)
	for i := range m.slabs {
		s := &m.slabs[i]
		s.next = s.base + s.size
		copy(bytesAt(s.base, s.size), bytesAt(s.picture, s.size))
	}
	m.free, m.loose, m.tried = slices.Clone(m.wereFree), mostLoose, 0
}

// drop frees all blocks, and all slabs but the first ones.
func (m *memory) drop(slabs int) {
	for _, base := range m.blocks {
		libc.Xfree(m.tls, base)
	}
	for _, s := range m.slabs[slabs:] {
		libc.Xfree(m.tls, s.base)
		if s.picture != 0 {
			libc.Xfree(m.tls, s.picture)
		}
	}
	m.blocks, m.slabs = nil, m.slabs[:slabs]
}
