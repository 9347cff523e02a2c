package compile

// A scope holds the names declared in a function, a block or the module.
type scope struct {
	outer *scope
	// function tells that `var` declarations inside stop here.
	function bool
	names    map[string]declaration
}

// A declaration is the way in which a scope has a name.
type declaration int

const (
	// assigned is no declaration: the name is written to.
	assigned declaration = iota
	// own is what a function or a class calls itself, and `arguments`. Any declaration may take its place.
	own
	variable // var, and a function in a function
	parameter
	caught  // the parameter of a catch, if that is a name
	lexical // let, const, class, import, and a function anywhere else
)

// declare adds a name, and reports whether what is declared already lets it be so.
func (s *scope) declare(name string, as declaration) bool {
	if as == variable {
		return s.declareVar(name)
	}
	known := s.names[name]
	s.set(name, as)
	switch as {
	case lexical:
		return known <= own
	case parameter:
		return known != parameter
	}
	return true
}

// declareVar puts the name where a `var` stands and into its function: it may not pass a lexical declaration on the way.
// One that follows in a block between the two is left to the engine.
func (s *scope) declareVar(name string) bool {
	function := s
	for ; function.names[name] != lexical; function = function.outer {
		if !function.function {
			continue
		}
		for _, at := range []*scope{s, function} {
			if at.names[name] <= own {
				at.set(name, variable)
			}
		}
		return true
	}
	return false
}

func (s *scope) set(name string, as declaration) {
	if s.names == nil {
		s.names = map[string]declaration{}
	}
	s.names[name] = as
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

// A reference is a use of a name. It can be resolved only when the whole body has been read, for declarations are hoisted.
type reference struct {
	name   string
	offset int
	scope  *scope
}

func (r reference) declared() bool { return r.scope.declares(r.name) }
