# The usual jobs by name. PRESET picks the build folder: build/$(PRESET), see CMakePresets.json.
PRESET ?= release
JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 60

.PHONY: all run test test-full sanitize build check tidy format fuzz setup install hooks clean

all: build

setup:
	@scripts/setup

build:
	@scripts/setup --build
	@cmake --preset $(PRESET)
	@cmake --build --preset $(PRESET) -j $(JOBS)

run: PRESET = release
run: build
	@scripts/run_demo

test: setup
	@scripts/run_tests $(PRESET) $(JOBS)

# Ten seeds of every adversary for the programs on the virtual GPU; SEEDS for fewer.
test-full: test
	@scripts/test_full $(PRESET) $(or $(SEEDS),10)

# The virtual GPU under ASan and UBSan, with the CUDA programs that PRESET has built.
sanitize:
	@scripts/setup --build
	@scripts/sanitize_vgpu $(PRESET) $(JOBS)

check:
	@scripts/check

tidy: build
	@scripts/check --tidy $(PRESET)

format:
	@scripts/format

fuzz:
	@scripts/setup --build
	@scripts/fuzz $(FUZZ_SECONDS) $(JOBS)

# Set PREFIX to choose the place.
install: build
	@cmake --install build/$(PRESET) $(if $(PREFIX),--prefix $(PREFIX))

hooks:
	@git config core.hooksPath .githooks

clean:
	@rm -rf build
