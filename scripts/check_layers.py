"""Checks from the include lines that every layer includes only what it may.

Layers are the folders of src/, and tools, bench, examples. Tests may include anything.
"""

import re
import sys

import source_files

# Folders of src/ that a layer may include, besides itself.
ALLOWED = {
    "base": set(),
    "numerics": {"base"},
    "problem": {"base", "numerics"},
    "schedule": {"base", "numerics", "problem"},
    "plan": {"base", "numerics", "problem", "schedule"},
    "backend": {"base", "problem", "plan"},
    "oracle": {"base"},
    "audit": {"base", "numerics", "problem", "oracle"},
    "pcast": {"base", "numerics"},
    "cpu": {"base", "numerics", "problem", "schedule", "plan", "backend"},
    "ptx": {"base"},
    "device": {"base", "numerics", "problem", "schedule", "ptx"},
    "kernels": {"base", "numerics", "problem", "schedule", "ptx", "device"},
    "cuda": {"base", "numerics", "problem", "schedule", "plan", "backend"},
    "emulator": {"base", "numerics"},
    "api": {"base", "problem", "plan", "backend"},
    "tools": {"bench", "plan", "problem", "base", "oracle", "audit", "numerics", "pcast", "emulator"},
    "bench": {"tools", "plan", "problem", "base", "oracle", "audit", "numerics", "pcast", "emulator"},
    "examples": set(),
    "vgpu_calibration": {"bench"},
    "vgpu_speed": {"bench", "emulator"},
    "gpu_bench": {"bench", "tools", "numerics", "base", "problem", "schedule", "plan", "cuda"},
}

# Single headers beyond the table.
ALLOWED_FILES = {
    "device": {"plan/kernel_info.h"},
    "kernels": {"plan/kernel_info.h", "plan/schedule_kernels.h"},
    # The factory functions, and the audit, whose public names are the API's.
    "api": {"cpu/backend.h", "cuda/backend.h", "cuda/device.h", "audit/audit.h", "audit/library.h",
            "audit/report_json.h"},
}

# Public headers: problem and schedule may use the nouns, layers above them all. Layers not named
# here, which device code sees, may include none.
NOUNS = {"flamia/status.h", "flamia/problem.h", "flamia/options.h", "flamia/conventions.h"}
PUBLIC_NOUNS = {"problem", "schedule"}
PUBLIC_ALL = {
    "plan", "backend", "cpu", "cuda", "oracle", "audit", "pcast", "api",
    "tools", "bench", "gpu_bench", "examples",
}
PUBLIC_FILES = {"base": {"flamia/status.h"}, "emulator": {"flamia/status.h"}}

# Layers and single files that may include headers of CUDA.
CUDA_LAYERS = {"ptx", "device", "kernels", "cuda", "emulator", "vgpu_calibration", "gpu_bench"}
CUDA_FILES = {"tools/device_memory.cc"}
CUDA_HEADER = re.compile(r"^(cuda|cooperative_groups|cutlass|cute/|nvtx)")

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', re.MULTILINE)


def layer_of(name):
    parts = name.split("/")
    if name.startswith("bench/vgpu_calibration/"):
        return "vgpu_calibration"  # programs by themselves: no part of flamia
    if name.startswith("bench/gpu/"):
        return "gpu_bench"  # times of single kernels
    return parts[1] if parts[0] == "src" else parts[0]


def public_allowed(layer, target):
    if layer in PUBLIC_ALL:
        return True
    if layer in PUBLIC_NOUNS and target in NOUNS:
        return True
    return target in PUBLIC_FILES.get(layer, ())


def problem_with(name, layer, quote, target):
    """What is wrong with one include, or None."""
    if quote == "<" and CUDA_HEADER.match(target):
        allowed = layer in CUDA_LAYERS or name in CUDA_FILES
        return None if allowed else "CUDA headers are not for this layer"
    if target.startswith("flamia/"):
        return None if public_allowed(layer, target) else "this public header is not for this layer"
    if quote == "<":
        return None
    if "/" not in target:
        return 'own headers are included by path, as in "numerics/e4m3.h"'
    other = target.split("/")[0]
    if other == layer or other in ALLOWED[layer] or target in ALLOWED_FILES.get(layer, ()):
        return None
    if other not in ALLOWED:
        return "no such layer"
    may = ", ".join(sorted(ALLOWED[layer])) or "nothing"
    return f"{layer} may include {may}"


def public_problem_with(quote, target):
    """Public headers include each other and the standard library."""
    if target.startswith("flamia/") or (quote == "<" and not CUDA_HEADER.match(target)):
        return None
    return "public headers may include public and standard headers only"


def main() -> int:
    errors = 0
    for name in source_files.files(folders=("include", "src", "tools", "bench", "examples")):
        layer = layer_of(name)
        text = source_files.without_comments(source_files.read(name), keep_strings=True)
        if layer != "include" and layer not in ALLOWED:
            print(f"{name}: layer {layer} is not in the table of scripts/check_layers.py")
            errors += 1
            continue
        for match in INCLUDE.finditer(text):
            quote, target = match.groups()
            if layer == "include":
                problem = public_problem_with(quote, target)
            else:
                problem = problem_with(name, layer, quote, target)
            if problem:
                line = text.count("\n", 0, match.start(1)) + 1
                print(f"{name}:{line}: includes {target}: {problem}")
                errors += 1
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
