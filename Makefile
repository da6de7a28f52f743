# One word per chore. `make demo` and `make test` work in a fresh clone.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
PIP = $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt

# One more than there are cores: many tests wait for a server or a clock.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 1)')

.PHONY: demo test fuzz rule-case anchors audit quotes test-engines llama-library web-runtime lint types wheel bench bench-scan bench-million bench-web golden docs clean

$(VENV)/.core: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PIP) --editable .
	$(BIN)/python -m compileall -q draftcheck  # a wheel install does it; some machines never write .pyc
	touch $@

$(VENV)/.dev: $(VENV)/.core
	$(PIP) torch
	$(PIP) --editable '.[trial,deep]' build deptry hypothesis jsonschema mypy playwright \
	  pre-commit pytest pytest-xdist ruff sentencepiece
	touch $@

demo: $(VENV)/.core          ## from nothing to a verdict on the embedded pair, a draft that loses, a head that gains
	$(BIN)/draftcheck pair fixtures/pair/target fixtures/pair/draft
	$(BIN)/draftcheck pair fixtures/pair/target.gguf fixtures/pair/draft.gguf --engine llama.cpp
	$(MAKE) $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/draftcheck trial fixtures/pair/target fixtures/pair/draft --device cpu \
	  --verify --budget 40
	OMP_NUM_THREADS=1 $(BIN)/draftcheck trial fixtures/pair/target fixtures/pair/heads/eagle3 \
	  --device cpu --budget 40

test: $(VENV)/.dev           ## the whole suite
	$(BIN)/python -m compileall -q draftcheck
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile

fuzz: $(VENV)/.dev           ## MINUTES=10 [SURFACE=deploy] [SEED=…]: attack every surface; says seed and input
	$(BIN)/python -m tests.fuzz $(SURFACE) --minutes '$(or $(MINUTES),10)' $(if $(SEED),--seed $(SEED))

rule-case: $(VENV)/.dev      ## ID=VLL900 ENGINE=vllm@0.30.0 [METHOD=…] [KIND=fail]: a case to edit
	$(BIN)/python -m tests.judge.make_rule_case '$(ID)' '$(ENGINE)' --method '$(METHOD)' \
	  --kind '$(or $(KIND),pass)'

anchors: $(VENV)/.dev        ## ENGINE=vllm SOURCE=folder [LABEL=…]: rules/anchors anew, after rows changed
	$(BIN)/python -m tests.agreement.make_anchors '$(ENGINE)' --source '$(SOURCE)' \
	  $(if $(LABEL),--label '$(LABEL)')

audit: $(VENV)/.dev          ## SEED=7 N=5 [UNREAD=1] SOURCES="vllm=clone vllm=folder …": rows and the code at their edges
	$(BIN)/python -m tests.agreement.audit --seed '$(or $(SEED),0)' --rows '$(or $(N),5)' \
	  $(if $(UNREAD),--unread) $(SOURCES)

quotes: $(VENV)/.dev         ## SOURCES="vllm=clone vllm=folder …": rows whose words a release does not hold
	$(BIN)/python -m tests.agreement.quotes $(SOURCES)

llama-library: .llama/package ## llama.cpp prebuilt, for agreement tests (needs npm and a registry)

.llama/package:
	mkdir -p .llama
	cd .llama && npm pack --silent --fetch-retries 0 --fetch-timeout 60000 \
	  @node-llama-cpp/linux-x64@3.22.1 && tar xzf node-llama-cpp-*.tgz

web-runtime: .web/ready       ## Python for browsers and axe-core, for tests of the checker's page (needs npm)

.web/ready: $(VENV)/.core
	mkdir -p .web
	cd .web && npm pack --silent --fetch-retries 0 --fetch-timeout 60000 \
	  pyodide@314.0.7 axe-core@4.14.0 >/dev/null && tar xzf axe-core-*.tgz package/axe.min.js
	$(BIN)/pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
	  --platform pyemscripten_2026_0_wasm32 --python-version 3.14 --implementation cp \
	  --abi cp314 msgspec==0.22.0 --dest .web
	touch $@

test-engines: $(VENV)/.dev   ## only what is held against real engines; skips say what is missing
	-$(MAKE) llama-library
	$(BIN)/python -m pytest -q -m "libllama or llamacpp or transformers"

lint: $(VENV)/.dev           ## style, dependencies, layers, import cycles, names
	$(BIN)/ruff format --check draftcheck tests benchmarks fixtures
	$(BIN)/ruff check draftcheck tests benchmarks fixtures
	$(BIN)/deptry .
	$(BIN)/python -m pytest -q tests/test_house.py

types: $(VENV)/.dev          ## mypy, strict
	$(BIN)/mypy

wheel: $(VENV)/.dev          ## sdist -> wheel -> empty environment -> a verdict
	$(BIN)/python tests/wheel_smoke.py

bench: $(VENV)/.dev          ## promised and measured; real tokenizers where DRAFTCHECK_REALDATA is set
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.trial
	$(BIN)/python -m benchmarks.gate

bench-scan: $(VENV)/.dev     ## two nights over 30,000 repos of a Hub on loopback; some minutes
	$(BIN)/python -m benchmarks.scan

bench-million: $(VENV)/.dev  ## nights over lists of up to a million repos; ten minutes and more
	$(BIN)/python -m benchmarks.million

bench-web: $(VENV)/.dev      ## the checker's page against bare Pyodide and the command line (make web-runtime)
	$(BIN)/python -m benchmarks.web

golden: $(VENV)/.dev         ## fixtures/verdicts.json from the rule cases, after verdicts changed on purpose
	$(BIN)/python -m tests.scan.golden_verdicts

$(VENV)/.docs: $(VENV)/.dev
	$(PIP) --editable '.[docs]'
	touch $@

docs: $(VENV)/.dev           ## docs/rules from the rulebook, what pages show, and the site in build/site
	$(BIN)/draftcheck rules --pages docs/rules
	$(BIN)/python -m tests.docs.printed
	$(MAKE) $(VENV)/.docs
	$(BIN)/mkdocs build --strict

clean:
	rm -rf $(VENV) .llama .web build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
