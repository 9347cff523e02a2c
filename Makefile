# The same commands by hand and in CI; `make check` is all that CI runs. The others
# take longer, or make something.

GO       ?= go
TOOLS    := -modfile=.ci/tools/go.mod
LINT     := $(GO) tool $(TOOLS) golangci-lint
FUZZTIME ?= 30s
PACKAGES := ./...
SOAK     ?= 1000000
ENDURE   ?= 1h

.PHONY: check fmt lint test race vulnerabilities network modes fuzz recorded conform soak endure bench tidy deploy-test release upstream

check: tidy fmt lint vulnerabilities test race network modes deploy-test

fmt: ## Format every Go file.
	$(LINT) fmt

lint: ## Read the code with golangci-lint.
	$(LINT) run

test: ## Run the tests.
	$(GO) test $(PACKAGES)

# One processor for each test program, fewer rounds, and no detector in QuickJS, whose
# memory is not Go's: docs/design.md (Tests) says why.
race: ## Run the tests with the race detector.
	$(GO) test -race -short -cpu 1 -gcflags=modernc.org/...=-race=false -gcflags=github.com/evanw/...=-race=false $(PACKAGES)

vulnerabilities: ## Look for known vulnerabilities in the binary.
	.ci/vulnerabilities

fuzz: ## Run every fuzz target for FUZZTIME.
	@$(GO) list -f '{{.Dir}}' $(PACKAGES) | while read -r dir; do \
		grep -ho '^func Fuzz[A-Za-z0-9_]*' "$$dir"/*_test.go 2>/dev/null | sed 's/func //' | while read -r target; do \
			echo "== $$target in $$dir"; \
			$(GO) test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 20x "$$dir" || exit 1; \
		done || exit 1; \
	done

network: ## Run the tests over a network that misbehaves, in a module of their own.
	cd internal/toxic && $(GO) test -parallel 8 ./...

modes: ## Run the tests with extensions on one side only, the server's or the workers'.
	PHXWORKER_MOCK_MODE=extended $(GO) test $(PACKAGES)
	PHXWORKER_EXTENSIONS=all $(GO) test . ./internal/chaos

recorded: ## Execute every recorded run with both engines.
	$(GO) test ./internal/recorded -run TestRecordedRuns -all -v

conform: ## Try every conformance case on each broken server and worker, and the slow ones on ours.
	$(GO) test ./mockserver/conform/server ./mockserver/conform/worker -all
	$(GO) test ./cmd/phxconform -run '^TestPhxworkerConforms$$' -slow

soak: ## Take SOAK runs through the weather, in about ten minutes; memory must stay flat.
	$(GO) test ./internal/chaos -run '^TestSoak$$' -soak $(SOAK) -timeout 2h -v

endure: ## Take one worker through an hour of faults over real TCP; its memory must stay flat.
	cd internal/toxic && $(GO) test -run '^TestEndurance$$' -endure $(ENDURE) -timeout 3h -v .

bench: ## Run the benchmarks, with allocations.
	$(GO) test -run '^$$' -bench . -benchmem $(PACKAGES)

deploy-test: ## Test images, manifests, unit, dashboard and alerts against the binary, in a module of their own.
	cd deploy && $(GO) test ./...

release: ## Make the archives of VERSION, their bills of materials and SHA256SUMS, in dist/.
	rm -rf dist.part
	cd deploy && $(GO) run ./release -version '$(VERSION)' -out ../dist.part
	rm -rf dist
	mv dist.part dist

upstream: ## Ask npm what OpenFn has published that the table in docs/compatibility.md lacks.
	$(GO) run ./internal/upstream

tidy: ## Bring the module files in line with the code.
	$(GO) mod tidy
	cd internal/toxic && $(GO) mod tidy
	cd deploy && $(GO) mod tidy
	$(GO) generate $(PACKAGES)
