# Device code: proves on every build with nvcc that the headers of src/numerics compile for each
# GPU target. A register spill is an error of the build.

set(CMAKE_CUDA_COMPILER "${FLAMIA_NVCC}")
set(CMAKE_CUDA_ARCHITECTURES OFF)  # targets are passed by hand: SASS and PTX for each
enable_language(CUDA)

set(flamia_cuda_flags
    -std=c++20 -fmad=false
    "SHELL:-gencode=arch=compute_90a,code=[sm_90a,compute_90a]"
    "SHELL:-gencode=arch=compute_100a,code=[sm_100a,compute_100a]"
    "SHELL:--ptxas-options=--warn-on-spills,--warning-as-error"
    "SHELL:-Xcompiler=-Wall,-Wextra,-Wshadow,-ffp-contract=off"
    "SHELL:--Werror cross-execution-space-call")
if(FLAMIA_WERROR)
  list(APPEND flamia_cuda_flags "SHELL:--Werror all-warnings")
endif()

file(GLOB flamia_numerics_headers CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}/src"
     "${PROJECT_SOURCE_DIR}/src/numerics/*.h")
set(flamia_include_list "")
foreach(header IN LISTS flamia_numerics_headers)
  string(APPEND flamia_include_list "#include \"${header}\"\n")
endforeach()
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/generated/numerics_headers.inc"
     CONTENT "${flamia_include_list}" @ONLY)

file(GLOB flamia_cuda_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/cuda/*_compile.cu")
if(flamia_cuda_sources)
  add_library(flamia_cuda_compile OBJECT ${flamia_cuda_sources})
  target_compile_options(flamia_cuda_compile
                         PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:${flamia_cuda_flags}>)
  target_include_directories(
    flamia_cuda_compile PRIVATE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/include"
                                "${PROJECT_BINARY_DIR}/generated")
endif()
