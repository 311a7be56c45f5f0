# Device code: proves on every build with nvcc that the headers of src/numerics compile for each
# GPU target. The flags are those of kernels.cmake.

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
                         PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:${flamia_cuda_flags}>
                                 $<$<COMPILE_LANGUAGE:CUDA>:${flamia_gencode_hopper}>
                                 $<$<COMPILE_LANGUAGE:CUDA>:${flamia_gencode_blackwell}>)
  target_include_directories(
    flamia_cuda_compile PRIVATE "${PROJECT_SOURCE_DIR}/src" "${PROJECT_SOURCE_DIR}/include"
                                "${PROJECT_BINARY_DIR}/generated")
endif()
