# The virtual GPU as programs see it: libcudart.so.13 and libcuda.so.1 in <build>/vgpu, the program
# vgpu-run, and CUDA programs that run on it as tests. Included after tests.cmake.
# The headers of CUDA 13 are needed to build, nothing of CUDA to run.

get_filename_component(flamia_nvcc_folder "${FLAMIA_NVCC}" DIRECTORY)
find_path(FLAMIA_CUDA_INCLUDE_DIR cuda_runtime_api.h HINTS "${flamia_nvcc_folder}/../include"
          ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES include)
mark_as_advanced(FLAMIA_CUDA_INCLUDE_DIR)
set(flamia_has_cudart OFF)
if(FLAMIA_CUDA_INCLUDE_DIR)
  set(flamia_has_cudart ON)
endif()
message(STATUS "flamia: virtual CUDA runtime ${flamia_has_cudart}")

# The runtime half is no part of the emulator's library: its names would stand in for CUDA's in
# every program that links that.
function(flamia_remove_sources target pattern)
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources EXCLUDE REGEX "${pattern}")
  set_property(TARGET ${target} PROPERTY SOURCES ${sources})
endfunction()
flamia_remove_sources(flamia_emulator "/src/emulator/cudart/")

if(flamia_has_cudart)
  file(GLOB flamia_cudart_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/emulator/cudart/*.cc")
  list(FILTER flamia_cudart_sources EXCLUDE REGEX "/(emulator_executor|libcuda)\\.cc$")
  add_library(flamia_cudart_objects OBJECT ${flamia_cudart_sources})
  flamia_add_flags(flamia_cudart_objects STRICT)
  if("undefined" IN_LIST FLAMIA_SANITIZE OR FLAMIA_BUILD_FUZZERS)
    # Programs may pass any number as an enumerator; the calls check them, the sanitizer must not.
    target_compile_options(flamia_cudart_objects PRIVATE -fno-sanitize=enum)
  endif()
  target_include_directories(flamia_cudart_objects SYSTEM PUBLIC "${FLAMIA_CUDA_INCLUDE_DIR}")
  target_link_libraries(flamia_cudart_objects PUBLIC flamia_emulator)

  set(flamia_vgpu_folder "${PROJECT_BINARY_DIR}/vgpu")
  set(flamia_cudart_map "${PROJECT_SOURCE_DIR}/src/emulator/cudart/libcudart.map")
  add_library(flamia_cudart SHARED
              $<TARGET_OBJECTS:flamia_cudart_objects>
              "${PROJECT_SOURCE_DIR}/src/emulator/cudart/emulator_executor.cc")
  flamia_add_flags(flamia_cudart STRICT)
  target_link_libraries(flamia_cudart PRIVATE flamia_emulator)
  target_include_directories(flamia_cudart SYSTEM PRIVATE "${FLAMIA_CUDA_INCLUDE_DIR}")
  # What it does at exit needs its code, which a static CUDA runtime would unload before.
  target_link_options(flamia_cudart PRIVATE "LINKER:--version-script=${flamia_cudart_map}"
                                            LINKER:-z,nodelete)
  if(NOT FLAMIA_SANITIZE)
    target_link_options(flamia_cudart PRIVATE LINKER:--no-undefined)
  endif()
  set_target_properties(flamia_cudart PROPERTIES OUTPUT_NAME cudart SUFFIX ".so.13"
                                                 LIBRARY_OUTPUT_DIRECTORY "${flamia_vgpu_folder}"
                                                 LINK_DEPENDS "${flamia_cudart_map}")

  add_library(flamia_cuda_driver SHARED "${PROJECT_SOURCE_DIR}/src/emulator/cudart/libcuda.cc")
  flamia_add_flags(flamia_cuda_driver STRICT)
  target_link_options(flamia_cuda_driver PRIVATE LINKER:--no-as-needed)
  target_link_libraries(flamia_cuda_driver PRIVATE flamia_cudart)
  set_target_properties(flamia_cuda_driver PROPERTIES
                        OUTPUT_NAME cuda SUFFIX ".so.1" BUILD_RPATH "$ORIGIN"
                        INSTALL_RPATH "$ORIGIN" BUILD_RPATH_USE_ORIGIN ON
                        LIBRARY_OUTPUT_DIRECTORY "${flamia_vgpu_folder}")
endif()

if(flamia_has_cudart AND FLAMIA_BUILD_TOOLS)
  foreach(program IN ITEMS run trace)
    add_executable(flamia_vgpu_${program}
                   "${PROJECT_SOURCE_DIR}/tools/vgpu/vgpu_${program}.cc"
                   "${PROJECT_SOURCE_DIR}/tools/vgpu/launch.cc"
                   "${PROJECT_SOURCE_DIR}/tools/vgpu/elf_needs.cc")
    flamia_add_flags(flamia_vgpu_${program} STRICT)
    target_include_directories(flamia_vgpu_${program} PRIVATE "${PROJECT_SOURCE_DIR}")
    target_link_libraries(flamia_vgpu_${program} PRIVATE CLI11::CLI11)
    add_dependencies(flamia_vgpu_${program} flamia_cudart flamia_cuda_driver)
    set_target_properties(flamia_vgpu_${program} PROPERTIES
                          OUTPUT_NAME vgpu-${program}
                          RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
  endforeach()
endif()

# The program once more, with the shared runtime that the virtual GPU stands in for.
if(TARGET flamia_vgpu_run AND TARGET flamia_tools AND FLAMIA_HAS_CUDA AND NOT FLAMIA_SANITIZE)
  add_executable(flamia_program_vgpu ${flamia_main_source})
  flamia_add_flags(flamia_program_vgpu STRICT)
  target_include_directories(flamia_program_vgpu PRIVATE "${PROJECT_SOURCE_DIR}"
                                                         "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(flamia_program_vgpu PRIVATE flamia_tools CUDA::cudart)
  set_target_properties(flamia_program_vgpu PROPERTIES
                        OUTPUT_NAME flamia-vgpu FLAMIA_SHARED_CUDART ON
                        RUNTIME_OUTPUT_DIRECTORY "${flamia_vgpu_folder}")
  if(FLAMIA_BUILD_TESTS)
    set(flamia_attend $<TARGET_FILE:flamia_program_vgpu> attend --backend hopper --docs 3x100
                      --heads 2)
    set(report "${flamia_vgpu_folder}/attend.json")
    add_test(NAME vgpu/flamia.attends_on_a_hopper
             COMMAND flamia_vgpu_run --chip h200 --adversary random --seed 1 --
                     ${flamia_attend} --forward-only --check oracle --report "${report}")
    set_tests_properties(vgpu/flamia.attends_on_a_hopper PROPERTIES
                         LABELS "cpu;vgpu" TIMEOUT 300 FIXTURES_SETUP flamia_attend_report)
    add_test(NAME vgpu/flamia.reports_the_hopper
             COMMAND "${CMAKE_COMMAND}" "-DREPORT=${report}"
                     -P "${PROJECT_SOURCE_DIR}/cmake/check_attend_report.cmake")
    set_tests_properties(vgpu/flamia.reports_the_hopper PROPERTIES
                         LABELS "cpu;vgpu" FIXTURES_REQUIRED flamia_attend_report)
    add_test(NAME vgpu/flamia.refuses_gradients_on_a_hopper
             COMMAND flamia_vgpu_run --chip h200 -- ${flamia_attend})
    set_tests_properties(vgpu/flamia.refuses_gradients_on_a_hopper PROPERTIES LABELS "cpu;vgpu"
                         PASS_REGULAR_EXPRESSION "backend must be cpu for a backward pass; got hopper")
    add_test(NAME vgpu/flamia.names_the_device
             COMMAND flamia_vgpu_run --chip h200 -- $<TARGET_FILE:flamia_program_vgpu> info)
    set_tests_properties(vgpu/flamia.names_the_device PROPERTIES LABELS "cpu;vgpu"
                         PASS_REGULAR_EXPRESSION
                         "hopper +available: [^\n]*H200, [0-9]+ multiprocessors\n.*auto +hopper")
    # Benchmarks and audits on a GPU, as small as they go.
    set(flamia_bench $<TARGET_FILE:flamia_program_vgpu> bench)
    set(tiny --docs 2x40 --heads 1 --repeat 1 --backend hopper)
    add_test(NAME vgpu/flamia.times_a_forward
             COMMAND flamia_vgpu_run --chip h200 -- ${flamia_bench} forward ${tiny} --regime burst
                     --json "${flamia_vgpu_folder}/bench_forward.json")
    set_tests_properties(vgpu/flamia.times_a_forward PROPERTIES PASS_REGULAR_EXPRESSION
                         "workspace [0-9.]+ MB.*quantize.forward burst: .*call burst: [0-9.]+ ms")
    add_test(NAME vgpu/flamia.times_a_forward_of_nvfp4
             COMMAND flamia_vgpu_run --chip h200 -- ${flamia_bench} forward ${tiny} --regime burst
                     --path nvfp4 --safety exact --head-dim 64 --passes call)
    set_tests_properties(vgpu/flamia.times_a_forward_of_nvfp4 PROPERTIES PASS_REGULAR_EXPRESSION
                         "flamia_nvfp4_exact .*call burst: [0-9.]+ ms")
    add_test(NAME vgpu/flamia.times_the_quantizer
             COMMAND flamia_vgpu_run --chip h200 -- ${flamia_bench} quantize ${tiny} --head-dim 64)
    set_tests_properties(vgpu/flamia.times_the_quantizer PROPERTIES PASS_REGULAR_EXPRESSION
                         "d64, bf16 blocks")
    add_test(NAME vgpu/flamia.times_the_work_list
             COMMAND flamia_vgpu_run --chip h200 -- ${flamia_bench} worklist ${tiny})
    set_tests_properties(vgpu/flamia.times_the_work_list PROPERTIES PASS_REGULAR_EXPRESSION
                         "80 tokens, 2 documents")
    add_test(NAME vgpu/flamia.audits_a_hopper
             COMMAND flamia_vgpu_run --chip h200 -- $<TARGET_FILE:flamia_program_vgpu> audit
                     --backend hopper --forward-only --tokens 96 --context 512 --head-dim 64
                     --at 40 --operand v --factor 1048576
                     --probe accuracy,determinism,causal_leak,packing,tails,underflow,context)
    set_tests_properties(vgpu/flamia.audits_a_hopper PROPERTIES PASS_REGULAR_EXPRESSION
                         "\npassed: [0-9]+ passed")
    foreach(test IN ITEMS times_a_forward times_a_forward_of_nvfp4 times_the_quantizer
                          times_the_work_list audits_a_hopper)
      set_property(TEST vgpu/flamia.${test} PROPERTY LABELS "cpu;vgpu")
      set_property(TEST vgpu/flamia.${test} PROPERTY TIMEOUT 300)
    endforeach()
    # Beside a GPU, files are still quantized on the CPU.
    add_test(NAME vgpu/flamia.quantizes_files
             COMMAND flamia_vgpu_run --chip h200 -- $<TARGET_FILE:flamia_program_vgpu> quantize
                     --input "${PROJECT_SOURCE_DIR}/examples/data/trained_attention.safetensors"
                     --tensor q --role q --recipe mxfp8
                     --output "${flamia_vgpu_folder}/quantized.safetensors")
    set_tests_properties(vgpu/flamia.quantizes_files PROPERTIES LABELS "cpu;vgpu")
  endif()
endif()

if(TARGET test_emulator)
  if(flamia_has_cudart)
    target_link_libraries(test_emulator PRIVATE flamia_cudart_objects)
    target_sources(test_emulator PRIVATE $<TARGET_OBJECTS:flamia_cudart_objects>)
  else()
    flamia_remove_sources(test_emulator "/emulator/cudart_[a-z_]*_test\\.cc$")
  endif()
endif()

# Unmodified CUDA programs, built by nvcc and run by vgpu-run. Each prints "passed" at its end.
option(FLAMIA_VGPU_PROGRAMS "Build CUDA programs and run them on the virtual GPU" ON)
if(FLAMIA_BUILD_TESTS AND FLAMIA_VGPU_PROGRAMS AND FLAMIA_HAS_CUDA AND TARGET flamia_vgpu_run
   AND NOT FLAMIA_SANITIZE)
  set(flamia_programs_folder "${PROJECT_SOURCE_DIR}/tests/cuda/cudart_programs")
  file(GLOB flamia_vgpu_programs CONFIGURE_DEPENDS "${flamia_programs_folder}/*.cu")
  set(flamia_vgpu_binaries "")
  file(MAKE_DIRECTORY "${flamia_vgpu_folder}/programs")
  foreach(source IN LISTS flamia_vgpu_programs)
    get_filename_component(name "${source}" NAME_WE)
    set(binary "${flamia_vgpu_folder}/programs/${name}")
    add_custom_command(
      OUTPUT "${binary}"
      COMMAND "${FLAMIA_NVCC}" -std=c++20 -cudart shared
              -gencode arch=compute_90a,code=compute_90a -o "${binary}" "${source}" -lcuda
      DEPENDS "${source}" "${flamia_programs_folder}/check.h" VERBATIM)
    list(APPEND flamia_vgpu_binaries "${binary}")
    foreach(adversary IN ITEMS late early random)
      set(test "vgpu/${name}.${adversary}")
      add_test(NAME ${test} COMMAND flamia_vgpu_run --adversary ${adversary} --seed 1 "${binary}")
      set_tests_properties(${test} PROPERTIES LABELS "cpu;vgpu" TIMEOUT 300
                                              PASS_REGULAR_EXPRESSION "passed")
    endforeach()
  endforeach()

  # A program with a static runtime does not reach the virtual GPU; vgpu-run says so.
  set(binary "${flamia_vgpu_folder}/programs/static_runtime")
  add_custom_command(
    OUTPUT "${binary}"
    COMMAND "${FLAMIA_NVCC}" -std=c++20 -cudart static
            -gencode arch=compute_90a,code=compute_90a -o "${binary}"
            "${flamia_programs_folder}/symbols.cu"
    DEPENDS "${flamia_programs_folder}/symbols.cu" "${flamia_programs_folder}/check.h" VERBATIM)
  list(APPEND flamia_vgpu_binaries "${binary}")
  add_test(NAME vgpu/run.warns_of_static_runtime COMMAND flamia_vgpu_run "${binary}")
  set_tests_properties(vgpu/run.warns_of_static_runtime PROPERTIES LABELS "cpu;vgpu"
                       PASS_REGULAR_EXPRESSION "has device code but a static CUDA runtime")
  # A trap that the program ignores is in the exit code.
  set(trap_binary "${flamia_vgpu_folder}/programs/failing/ignored_trap")
  set(source "${PROJECT_SOURCE_DIR}/tests/cuda/failing_programs/ignored_trap.cu")
  file(MAKE_DIRECTORY "${flamia_vgpu_folder}/programs/failing")
  add_custom_command(
    OUTPUT "${trap_binary}"
    COMMAND "${FLAMIA_NVCC}" -std=c++20 -cudart shared
            -gencode arch=compute_90a,code=compute_90a -o "${trap_binary}" "${source}"
    DEPENDS "${source}" VERBATIM)
  list(APPEND flamia_vgpu_binaries "${trap_binary}")
  set(code "$<TARGET_FILE:flamia_vgpu_run> \"$@\"; echo exit code $?")
  add_test(NAME vgpu/run.ignored_trap_is_86 COMMAND sh -c "${code}" sh "${trap_binary}")
  add_test(NAME vgpu/run.ignored_trap_is_the_programs
           COMMAND sh -c "${code}" sh --trap-exit 0 "${trap_binary}")
  set_tests_properties(vgpu/run.ignored_trap_is_86 PROPERTIES LABELS "cpu;vgpu"
                       PASS_REGULAR_EXPRESSION "exit code 86\n")
  set_tests_properties(vgpu/run.ignored_trap_is_the_programs PROPERTIES LABELS "cpu;vgpu"
                       PASS_REGULAR_EXPRESSION "exit code 0\n")
  # Options end where the program starts, and a wrong one is never the program's.
  add_test(NAME vgpu/run.refuses_unknown_options COMMAND flamia_vgpu_run --sed=4 "${binary}")
  set_tests_properties(vgpu/run.refuses_unknown_options PROPERTIES LABELS "cpu;vgpu"
                       PASS_REGULAR_EXPRESSION "vgpu-run: .*--sed=4")
  add_test(NAME vgpu/run.refuses_folders COMMAND flamia_vgpu_run "${flamia_vgpu_folder}")
  set_tests_properties(vgpu/run.refuses_folders PROPERTIES LABELS "cpu;vgpu"
                       PASS_REGULAR_EXPRESSION "PROGRAM must be a file or be found in PATH; got /")
  add_test(NAME vgpu/run.passes_arguments_on COMMAND flamia_vgpu_run --seed 5 -- echo -- --seed x)
  set_tests_properties(vgpu/run.passes_arguments_on PROPERTIES LABELS "cpu;vgpu"
                       PASS_REGULAR_EXPRESSION "^-- --seed x")
  add_test(NAME vgpu/run.refuses_numbers_out_of_range COMMAND flamia_vgpu_run --seed -1 "${binary}")
  set_tests_properties(vgpu/run.refuses_numbers_out_of_range PROPERTIES LABELS "cpu;vgpu"
                       PASS_REGULAR_EXPRESSION "must be 0 to 2.64 - 1; got -1")
  # A window of instructions of an unmodified program.
  add_test(NAME vgpu/trace.writes_a_window
           COMMAND flamia_vgpu_trace --cta 0 --warp 0 --count 3
                   "${flamia_vgpu_folder}/programs/vector_add")
  set_tests_properties(vgpu/trace.writes_a_window PROPERTIES LABELS "cpu;vgpu"
                       PASS_REGULAR_EXPRESSION "CTA \\(0,0,0\\) warp 0 lanes 0xffffffff line [0-9]+: ")
  add_test(NAME vgpu/trace.refuses_wrong_windows
           COMMAND flamia_vgpu_trace --lines 9 "${flamia_vgpu_folder}/programs/vector_add")
  set_tests_properties(vgpu/trace.refuses_wrong_windows PROPERTIES LABELS "cpu;vgpu"
                       PASS_REGULAR_EXPRESSION "trace: lines must be FIRST:LAST")
  add_test(NAME vgpu/run.refuses_unknown_chips
           COMMAND flamia_vgpu_run --chip h100 "${binary}")
  set_tests_properties(vgpu/run.refuses_unknown_chips PROPERTIES LABELS "cpu;vgpu"
                       PASS_REGULAR_EXPRESSION "vgpu-run: --chip: h100 not in")
  add_custom_target(flamia_vgpu_test_programs ALL DEPENDS ${flamia_vgpu_binaries})
endif()
