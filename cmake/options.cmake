# Options of the build, compiler flags, and flamia_add_flags(), which every target of ours calls.
# CMake 3.25 does not know the C++ standards of nvcc 13, so -std=c++20 is passed here by hand.

option(FLAMIA_BUILD_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(FLAMIA_BUILD_TOOLS "Build the program flamia" ${PROJECT_IS_TOP_LEVEL})
option(FLAMIA_BUILD_FUZZERS "Build the fuzzers (clang++ only, with ASan and UBSan)" OFF)
option(FLAMIA_WERROR "Treat warnings as errors" OFF)
option(FLAMIA_COVERAGE "Instrument for gcov" OFF)
set(FLAMIA_SANITIZE "" CACHE STRING "Sanitizers: address, undefined, thread, or a ;-list of them")
set(FLAMIA_CUDA AUTO CACHE STRING "Compile device code: AUTO (when nvcc is found), ON, OFF")
set_property(CACHE FLAMIA_CUDA PROPERTY STRINGS AUTO ON OFF)

# One instruction set for all host code. Mixing several in one program is unsafe: the linker keeps
# one copy of each inline function, and Eigen's alignment differs between them.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")
  set(flamia_default_arch x86-64-v3)
endif()
set(FLAMIA_HOST_ARCH "${flamia_default_arch}" CACHE STRING "Value of -march, empty for none")

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT FLAMIA_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "FLAMIA_CUDA must be AUTO, ON or OFF; got ${FLAMIA_CUDA}")
endif()
if(FLAMIA_BUILD_FUZZERS)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "FLAMIA_BUILD_FUZZERS must be used with clang++ (preset fuzz); "
                        "got ${CMAKE_CXX_COMPILER_ID}")
  endif()
  if(FLAMIA_SANITIZE)
    message(FATAL_ERROR "FLAMIA_SANITIZE must be empty with FLAMIA_BUILD_FUZZERS, which brings "
                        "its own; got ${FLAMIA_SANITIZE}")
  endif()
endif()
foreach(sanitizer IN LISTS FLAMIA_SANITIZE)
  if(NOT sanitizer MATCHES "^(address|undefined|thread)$")
    message(FATAL_ERROR "FLAMIA_SANITIZE must list address, undefined or thread; got ${sanitizer}")
  endif()
endforeach()

# No contraction: fused operations are written as fma, so that every backend rounds alike.
set(flamia_cxx_flags -std=c++20 -ffp-contract=off "-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=")
if(FLAMIA_HOST_ARCH)
  list(APPEND flamia_cxx_flags -march=${FLAMIA_HOST_ARCH})
endif()
set(flamia_warning_flags -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual
                         -Wundef -Wvla)
# Tests are spared these: there the noise outweighs the finds. So is clang, which only builds fuzzers
# here and warns of promotions in calls too.
set(flamia_strict_warning_flags "")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(flamia_strict_warning_flags -Wconversion -Wdouble-promotion)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # Clang does not fold __builtin_fmaf, and a constexpr function that calls it is an error by default.
  list(APPEND flamia_warning_flags -Wno-invalid-constexpr)
endif()
if(FLAMIA_WERROR)
  list(APPEND flamia_warning_flags -Werror)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC 12 reports these wrongly in optimized std::sort and std::vector code; they stay warnings.
    list(APPEND flamia_warning_flags -Wno-error=array-bounds -Wno-error=stringop-overflow
                -Wno-error=stringop-overread -Wno-error=maybe-uninitialized -Wno-error=restrict)
  endif()
endif()

set(flamia_instrument_flags "")
set(flamia_instrument_link_flags "")
if(FLAMIA_SANITIZE)
  list(JOIN FLAMIA_SANITIZE "," flamia_sanitizers)
  list(APPEND flamia_instrument_flags -fsanitize=${flamia_sanitizers} -fno-sanitize-recover=all
              -fno-omit-frame-pointer)
  list(APPEND flamia_instrument_link_flags -fsanitize=${flamia_sanitizers})
endif()
if(FLAMIA_BUILD_FUZZERS)
  list(APPEND flamia_instrument_flags -fsanitize=fuzzer-no-link,address,undefined
              -fno-sanitize-recover=all -fno-omit-frame-pointer)
  list(APPEND flamia_instrument_link_flags -fsanitize=address,undefined)
endif()
if(FLAMIA_COVERAGE)
  list(APPEND flamia_instrument_flags --coverage)
  list(APPEND flamia_instrument_link_flags --coverage)
endif()

# The reference backend is the layer that is vectorized. These flags change no value.
set(flamia_vector_flags -fno-math-errno -fno-trapping-math)
if(NOT FLAMIA_BUILD_FUZZERS)
  list(PREPEND flamia_vector_flags $<$<NOT:$<CONFIG:Debug>>:-O3>)
endif()

# Compiler flags for a host target of ours. STRICT adds the conversion warnings.
function(flamia_add_flags target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "STRICT" "" "")
  set(warnings ${flamia_warning_flags})
  if(arg_STRICT)
    list(APPEND warnings ${flamia_strict_warning_flags})
  endif()
  target_compile_options(
    ${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${flamia_cxx_flags};${warnings}>
                      $<$<COMPILE_LANGUAGE:CXX>:${flamia_instrument_flags}>)
  target_link_options(${target} PRIVATE ${flamia_instrument_link_flags})
  target_compile_definitions(${target} PRIVATE FLAMIA_VERSION_STRING="${PROJECT_VERSION}")
  set_target_properties(${target} PROPERTIES CXX_VISIBILITY_PRESET hidden
                                             VISIBILITY_INLINES_HIDDEN ON
                                             POSITION_INDEPENDENT_CODE ON)
endfunction()
