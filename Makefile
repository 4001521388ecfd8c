# Every target works on a fresh clone with npm (which any Node >= 20 has), Go >= 1.21 and make.
# `make` alone lists them.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help run run-fleet run-against-cluster test check generate e2e bench faults hostile image clean

# The packages bring the Node release that the sources need (scripts/node). npm itself must not run on it,
# because `npm ci` replaces it.
WITH_NODE := PATH="$(CURDIR)/node_modules/.bin:$$PATH"
INSTALLED := node_modules/.package-lock.json

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(INSTALLED) ## A local cluster, simulated tenants, the operator and a receiver; Ctrl-C stops
	@exec scripts/node scripts/run.ts

run-fleet: $(INSTALLED) ## Two simulated clusters, PostgreSQL with two standbys, and a hub that bills for both
	@exec scripts/node scripts/run-fleet.ts

run-against-cluster: $(INSTALLED) ## The operator from its sources against the cluster of KUBECONFIG
	@exec scripts/node scripts/run-against-cluster.ts

test: $(INSTALLED) ## Checks, then every test but the long suites
	@scripts/node e2e/control-plane/prepare.ts
	@scripts/node e2e/tools/prepare.ts
	@npm run --silent check
	@$(WITH_NODE) vitest run

check: $(INSTALLED) ## Types, lint, format and the API document
	@npm run --silent check

generate: $(INSTALLED) ## Files that are derived from others
	@npm run --silent generate
	@npm run --silent generate:docs

e2e: $(INSTALLED) ## The long end-to-end suites; needs root, buildah and Python 3.12
	@scripts/node e2e/control-plane/prepare.ts
	@scripts/node e2e/tools/prepare.ts kube-controller-manager kube-scheduler vcluster
	@$(WITH_NODE) vitest run --config vitest.long.config.ts

bench: $(INSTALLED) ## Benches, one JSON line per figure
	@npm run --silent bench

faults: $(INSTALLED) ## A thousand seeded accidents of the ledger and of delivery; SEED=… RUNS=…
	@npm run --silent faults -- --seed $(or $(SEED),1) --runs $(or $(RUNS),1000)

hostile: $(INSTALLED) ## A thousand seeded attacks on the operator as it is shipped; SEED=… RUNS=…
	@npm run --silent hostile -- --seed $(or $(SEED),1) --runs $(or $(RUNS),1000)

image: ## The container image, as IMAGE (default: meterfeed and the version of package.json)
	docker build --tag $(or $(IMAGE),meterfeed:$(shell sed -n 's/^  "version": "\(.*\)",/\1/p' package.json)) .

clean: ## Forget the local cluster and its ledger; the built control plane programs stay
	@[ ! -x node_modules/.bin/node ] || scripts/node scripts/clean.ts
	@rm -rf .run

$(INSTALLED): package-lock.json
	npm ci --no-audit --no-fund --loglevel=error
	@touch $@
