package compile

// A scope holds the names declared in a function, a block or the module.
type scope struct {
	outer *scope
	// function tells that `var` declarations inside stop here.
	function bool
	names    map[string]struct{}
}

func (s *scope) declare(name string) {
	if s.names == nil {
		s.names = map[string]struct{}{}
	}
	s.names[name] = struct{}{}
}

// declares reports whether name is declared here or further out.
func (s *scope) declares(name string) bool {
	for ; s != nil; s = s.outer {
		if _, ok := s.names[name]; ok {
			return true
		}
	}
	return false
}

// hoist is where a `var` declaration in s puts its name.
func (s *scope) hoist() *scope {
	for !s.function {
		s = s.outer
	}
	return s
}

// A reference is a use of a name. It can be resolved only when the whole body has been read, for declarations are hoisted.
type reference struct {
	name   string
	offset int
	scope  *scope
}

func (r reference) declared() bool { return r.scope.declares(r.name) }
