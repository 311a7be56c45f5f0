# GEMMs of CUTLASS on the virtual GPU: programs of ours that instantiate kernels from the headers of
# the nvidia-cutlass package in .venv (scripts/setup). Included after cudart.cmake.
# Every program runs once in the usual tests; scripts/test_full runs all seeds and adversaries.

file(GLOB flamia_cutlass_folders
     "${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/cutlass_library/source")
set(flamia_default_cutlass "")
if(flamia_cutlass_folders)
  list(GET flamia_cutlass_folders 0 flamia_default_cutlass)
endif()
set(FLAMIA_CUTLASS_DIR "${flamia_default_cutlass}" CACHE PATH "Folder with include/cutlass, 4.2")
mark_as_advanced(FLAMIA_CUTLASS_DIR)
if(NOT EXISTS "${FLAMIA_CUTLASS_DIR}/include/cutlass/cutlass.h" OR NOT TARGET flamia_vgpu_run
   OR NOT FLAMIA_BUILD_TESTS OR NOT FLAMIA_VGPU_PROGRAMS OR NOT FLAMIA_HAS_CUDA OR FLAMIA_SANITIZE)
  message(STATUS "flamia: no CUTLASS programs on the virtual GPU: they need nvcc and .venv")
  return()
endif()

set(flamia_cutlass_sources "${PROJECT_SOURCE_DIR}/tests/cuda/cutlass_gemms")
set(flamia_cutlass_binaries "")
file(MAKE_DIRECTORY "${flamia_vgpu_folder}/programs/cutlass")

# name: without the folder; arch: 90a or 100a; chip: that vgpu-run is asked for.
function(flamia_add_cutlass_program name arch chip)
  set(source "${flamia_cutlass_sources}/${name}.cu")
  set(binary "${flamia_vgpu_folder}/programs/cutlass/${name}")
  add_custom_command(
    OUTPUT "${binary}"
    COMMAND "${FLAMIA_NVCC}" -std=c++17 -cudart shared -w --expt-relaxed-constexpr
            -gencode arch=compute_${arch},code=compute_${arch} -Xcompiler -O1
            -I "${FLAMIA_CUTLASS_DIR}/include" -I "${FLAMIA_CUTLASS_DIR}/tools/util/include"
            -o "${binary}" "${source}" -lcuda
    DEPENDS "${source}" "${flamia_cutlass_sources}/gemm_case.h" VERBATIM
    COMMENT "CUTLASS program ${name}")
  set(flamia_cutlass_binaries ${flamia_cutlass_binaries} "${binary}" PARENT_SCOPE)
  foreach(case IN ITEMS "random;1;hw" "late;2;exact")
    list(GET case 0 adversary)
    list(GET case 1 seed)
    list(GET case 2 numerics)
    set(test "vgpu/cutlass_${name}.${adversary}_${numerics}")
    add_test(NAME ${test}
             COMMAND flamia_vgpu_run --chip ${chip} --adversary ${adversary} --seed ${seed}
                     --numerics ${numerics} "${binary}" ${numerics})
    set_tests_properties(${test} PROPERTIES LABELS "cpu;vgpu;cutlass" TIMEOUT 600
                                            PASS_REGULAR_EXPRESSION "passed")
  endforeach()
endfunction()

flamia_add_cutlass_program(sm90_dense 90a h200)
flamia_add_cutlass_program(sm100_dense 100a b200)
flamia_add_cutlass_program(sm100_block_scaled 100a b200)
add_custom_target(flamia_cutlass_programs ALL DEPENDS ${flamia_cutlass_binaries})
