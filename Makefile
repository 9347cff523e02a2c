# The same commands by hand and in CI; `make check` is all of them.

GO       ?= go
TOOLS    := -modfile=.ci/tools/go.mod
LINT     := $(GO) tool $(TOOLS) golangci-lint
FUZZTIME ?= 30s
PACKAGES := ./...
SOAK     ?= 1000000

.PHONY: check fmt lint test race network fuzz soak bench tidy

check: tidy fmt lint test race network

fmt: ## Format every Go file.
	$(LINT) fmt

lint: ## Read the code with golangci-lint.
	$(LINT) run

test: ## Run the tests.
	$(GO) test $(PACKAGES)

race: ## Run the tests with the race detector.
	$(GO) test -race $(PACKAGES)

fuzz: ## Run every fuzz target for FUZZTIME.
	@$(GO) list -f '{{.Dir}}' $(PACKAGES) | while read -r dir; do \
		grep -ho '^func Fuzz[A-Za-z0-9_]*' "$$dir"/*_test.go 2>/dev/null | sed 's/func //' | while read -r target; do \
			echo "== $$target in $$dir"; \
			$(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 20x "$$dir" || exit 1; \
		done || exit 1; \
	done

network: ## Run the tests over a network that misbehaves, in a module of their own.
	cd internal/toxic && $(GO) test -parallel 8 ./...

soak: ## Take SOAK runs through the weather, in about ten minutes; memory must stay flat.
	$(GO) test ./internal/chaos -run '^TestSoak$$' -soak $(SOAK) -timeout 2h -v

bench: ## Run the benchmarks, with allocations.
	$(GO) test -run '^$$' -bench . -benchmem $(PACKAGES)

tidy: ## Bring the module files in line with the code.
	$(GO) mod tidy
	cd internal/toxic && $(GO) mod tidy
	$(GO) generate $(PACKAGES)
