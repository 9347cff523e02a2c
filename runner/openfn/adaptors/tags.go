package adaptors

import "context"

// Local is the version of packages of the monorepo.
const Local = localTag

// Exact returns the name and the version that a specifier means, as [Repo.Resolve] would; [Local] stays what it is. The
// error is an [*InstallError], or why ctx ended. progress gets lines for the person who waits; it may be nil.
func (r *Repo) Exact(ctx context.Context, text string, progress func(string)) (name, version string, err error) {
	s, err := parse(text)
	if err == nil && !s.exact() && s.version != localTag {
		s, err = r.exact(ctx, s, progress)
	}
	return s.name, s.version, err
}

// exact replaces a tag by the version that it stands for. When the registry
// cannot be asked, latest is the newest version that is installed: an image with its
// adaptors works offline.
func (r *Repo) exact(ctx context.Context, s specifier, progress func(string)) (specifier, error) {
	version, ok := r.tags.get(s.String())
	if !ok {
		var err error
		version, err = r.lookUps.Do(ctx, s.String(), progress, func(ctx context.Context, tell func(string)) (string, error) {
			return r.lookUp(ctx, s, tell)
		})
		if err != nil {
			return s, err
		}
	}
	return specifier{name: s.name, version: version}, nil
}

func (r *Repo) lookUp(ctx context.Context, s specifier, tell func(string)) (string, error) {
	version, offline, err := r.askRegistry(ctx, s)
	if err != nil && offline && s.version == latestTag {
		if newest := r.newest(s.name); newest != "" {
			r.log.Warn("latest version is not known, taking the newest that is installed", "package", s.name, "version", newest, "error", err)
			tell("the registry cannot be asked for the latest version of " + s.name + "; using " + newest + ", the newest that is installed")
			version, err = newest, nil
		}
	}
	if err != nil {
		return "", err
	}
	r.tags.put(s.String(), version)
	return version, nil
}

// newest returns the newest version of a package that is installed, a release
// before any other; empty if there is none.
func (r *Repo) newest(name string) string {
	newest := ""
	for _, s := range r.installed() {
		if s.name == name && (newest == "" || compareVersions(newest, s.version) < 0) {
			newest = s.version
		}
	}
	return newest
}
