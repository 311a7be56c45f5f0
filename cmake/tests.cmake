# Tests: every top-level folder of tests/ with *_test.cc files below it becomes one GoogleTest
# program (tests/numerics -> test_numerics). tests/support is linked into each of them.
# Labels: cpu, the folder's name, and slow for suites named Slow* or Exhaustive*.

enable_testing()
include(GoogleTest)

file(GLOB_RECURSE flamia_test_sources CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}/tests"
     "${PROJECT_SOURCE_DIR}/tests/*_test.cc")
file(GLOB_RECURSE flamia_support_sources CONFIGURE_DEPENDS
     "${PROJECT_SOURCE_DIR}/tests/support/*.cc")
list(FILTER flamia_support_sources EXCLUDE REGEX "_test\\.cc$")

# LIBRARY: what is tested. The tools, and with them the whole library, come with flamia_static only.
function(flamia_add_test_flags target library)
  flamia_add_flags(${target})
  if(FLAMIA_SANITIZE)
    # Tests are large tables; instrumented, optimizing them takes longer than running them.
    target_compile_options(${target} PRIVATE -O1 -g1)
  endif()
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/src")
  target_compile_definitions(${target} PRIVATE FLAMIA_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
                                               FLAMIA_BINARY_DIR="${PROJECT_BINARY_DIR}")
  target_link_libraries(${target} PRIVATE ${library} Eigen3::Eigen GTest::gtest)
  if(TARGET GTest::gmock)
    target_link_libraries(${target} PRIVATE GTest::gmock)
  endif()
endfunction()

if(flamia_support_sources)
  add_library(flamia_test_support OBJECT ${flamia_support_sources})
  flamia_add_test_flags(flamia_test_support flamia_static)
endif()

set(flamia_test_folders "")
foreach(source IN LISTS flamia_test_sources)
  if(source MATCHES "^([^/]+)/")
    list(APPEND flamia_test_folders "${CMAKE_MATCH_1}")
  endif()
endforeach()
list(REMOVE_DUPLICATES flamia_test_folders)
list(REMOVE_ITEM flamia_test_folders support fuzz must_not_compile)
# These run on the virtual GPU, or by hand on a real one.
set(flamia_gpu_test_folders kernels cuda)
if(NOT FLAMIA_HAS_CUDA OR NOT FLAMIA_BUILD_TOOLS OR FLAMIA_SANITIZE)
  list(REMOVE_ITEM flamia_test_folders ${flamia_gpu_test_folders})
endif()

set(flamia_slow_suites "Slow*:Exhaustive*:*/Slow*:*/Exhaustive*")
foreach(folder IN LISTS flamia_test_folders)
  set(sources ${flamia_test_sources})
  list(FILTER sources INCLUDE REGEX "^${folder}/")
  list(TRANSFORM sources PREPEND "${PROJECT_SOURCE_DIR}/tests/")
  add_executable(test_${folder} ${sources})
  if(folder STREQUAL "emulator")
    # Alone, so that the virtual GPU can be tested under sanitizers without building the rest.
    flamia_add_test_flags(test_${folder} flamia_emulator)
    target_sources(test_${folder} PRIVATE "${PROJECT_SOURCE_DIR}/tests/support/golden.cc")
  else()
    flamia_add_test_flags(test_${folder} flamia_static)
    if(TARGET flamia_tools AND NOT folder IN_LIST flamia_gpu_test_folders)
      target_link_libraries(test_${folder} PRIVATE flamia_tools)
    endif()
    if(TARGET flamia_test_support)
      target_link_libraries(test_${folder} PRIVATE flamia_test_support)
    endif()
    if(TARGET flamia_program)
      add_dependencies(test_${folder} flamia_program)  # tests of the command line run it
    endif()
  endif()
  if(folder IN_LIST flamia_gpu_test_folders)
    # Few shared libraries, so that the program runs when it is copied to a machine with a GPU.
    target_link_options(test_${folder} PRIVATE -static-libstdc++ -static-libgcc)
    target_link_libraries(test_${folder} PRIVATE CUDA::cudart)
    set_target_properties(test_${folder} PROPERTIES
      FLAMIA_SHARED_CUDART ON
      CROSSCOMPILING_EMULATOR
      "${PROJECT_BINARY_DIR}/vgpu-run;--chip;h200;--adversary;random;--seed;1")
    add_dependencies(test_${folder} flamia_vgpu_run)
  endif()
  target_link_libraries(test_${folder} PRIVATE GTest::gtest_main)
  # Names are folder/Suite.Test, so that two folders may use one suite name.
  foreach(speed IN ITEMS quick slow)
    if(speed STREQUAL quick)
      set(filter "-${flamia_slow_suites}")
      set(labels "cpu;${folder}")
      set(timeout 300)
    else()
      set(filter "${flamia_slow_suites}")
      set(labels "cpu;slow;${folder}")
      set(timeout 900)
    endif()
    set(test_list flamia_${folder}_${speed}_tests)
    gtest_discover_tests(test_${folder} DISCOVERY_TIMEOUT 60 TEST_FILTER "${filter}"
                         TEST_PREFIX "${folder}/" TEST_LIST ${test_list}
                         WORKING_DIRECTORY "${PROJECT_BINARY_DIR}" PROPERTIES TIMEOUT ${timeout})
    # gtest_discover_tests cannot pass a list of labels; ctest reads this after its list of tests.
    set(labels_file "${PROJECT_BINARY_DIR}/generated/${test_list}_labels.cmake")
    file(WRITE "${labels_file}"
         "foreach(test IN LISTS ${test_list})\n"
         "  set_tests_properties(\"\${test}\" PROPERTIES LABELS \"${labels}\")\n"
         "endforeach()\n")
    set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${labels_file}")
  endforeach()
endforeach()

# The forward kernel gives the same bits whatever the machine's order is.
if(TARGET test_kernels)
  string(CONCAT script
         "for order in late early random; do FLAMIA_FORWARD_BITS=forward_$order.bits "
         "\"$1\" --chip h200 --adversary $order --seed 4 "
         "\"$2\" --gtest_filter=ForwardIsolation.SameBitsEveryTime || exit 1; done; "
         "cmp forward_late.bits forward_early.bits && cmp forward_late.bits forward_random.bits")
  add_test(NAME kernels/ForwardBits.same_under_each_adversary
           COMMAND sh -c "${script}" sh $<TARGET_FILE:flamia_vgpu_run> $<TARGET_FILE:test_kernels>)
  set_tests_properties(kernels/ForwardBits.same_under_each_adversary
                       PROPERTIES LABELS "cpu;kernels" TIMEOUT 300
                                  WORKING_DIRECTORY "${PROJECT_BINARY_DIR}")
  # The same tests with binary16 accumulators of the scores.
  foreach(suite IN ITEMS Forward ForwardIsolation ForwardStructure All/ForwardMask)
    string(MAKE_C_IDENTIFIER "${suite}" name)
    add_test(NAME kernels/HalfScores.${name}
             COMMAND flamia_vgpu_run --chip h200 --adversary random --seed 1
                     $<TARGET_FILE:test_kernels>
                     "--gtest_filter=${suite}.*:-*.OffsetsPast32Bits")
    set_tests_properties(kernels/HalfScores.${name}
                         PROPERTIES LABELS "cpu;kernels" TIMEOUT 300
                                    ENVIRONMENT "FLAMIA_TEST_SCORES=f16"
                                    WORKING_DIRECTORY "${PROJECT_BINARY_DIR}")
  endforeach()
endif()

# What the shared library exports are functions: rows of the kernel table and the like stay inside.
if(CMAKE_NM AND NOT FLAMIA_SANITIZE AND NOT FLAMIA_COVERAGE)
  add_test(NAME library/exports_no_data
           COMMAND sh -c "! \"$1\" -D --defined-only \"$2\" | grep ' [BDR] '" sh "${CMAKE_NM}"
                   $<TARGET_FILE:flamia_shared>)
  set_tests_properties(library/exports_no_data PROPERTIES LABELS "cpu;library")
endif()
