# Device code of the library: every src/kernels/**/*.cu, compiled to SASS and PTX (the virtual GPU
# reads the PTX). A register spill is an error of the build. Included before library.cmake.
# shared/ is for both GPU families, hopper/ for sm_90a, blackwell/ for sm_100a.

set(CMAKE_CUDA_COMPILER "${FLAMIA_NVCC}")
set(CMAKE_CUDA_ARCHITECTURES OFF)  # targets are passed by hand: SASS and PTX for each
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)

set(flamia_gencode_hopper "SHELL:-gencode=arch=compute_90a,code=[sm_90a,compute_90a]")
set(flamia_gencode_blackwell "SHELL:-gencode=arch=compute_100a,code=[sm_100a,compute_100a]")
# No contraction: fused operations are written as fma, so that every backend rounds alike.
set(flamia_cuda_flags
    -std=c++20 -fmad=false
    "SHELL:--ptxas-options=--warn-on-spills,--warning-as-error"
    "SHELL:-Xcompiler=-Wall,-Wextra,-Wshadow,-ffp-contract=off,-fvisibility=hidden"
    "SHELL:--Werror cross-execution-space-call")
if(FLAMIA_WERROR)
  list(APPEND flamia_cuda_flags "SHELL:--Werror all-warnings")
endif()

set(flamia_kernel_objects "")
foreach(family IN ITEMS shared hopper blackwell)
  file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/kernels/${family}/*.cu")
  if(NOT sources)
    continue()
  endif()
  add_library(flamia_kernels_${family} OBJECT ${sources})
  set(gencode "")
  if(NOT family STREQUAL "blackwell")
    list(APPEND gencode ${flamia_gencode_hopper})
  endif()
  if(NOT family STREQUAL "hopper")
    list(APPEND gencode ${flamia_gencode_blackwell})
  endif()
  target_compile_options(flamia_kernels_${family} PRIVATE ${flamia_cuda_flags} ${gencode})
  target_include_directories(flamia_kernels_${family} PRIVATE "${PROJECT_SOURCE_DIR}/src"
                                                              "${PROJECT_SOURCE_DIR}/include")
  set_target_properties(flamia_kernels_${family} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  list(APPEND flamia_kernel_objects $<TARGET_OBJECTS:flamia_kernels_${family}>)
endforeach()
