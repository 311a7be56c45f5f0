# Program flamia: tools/*.cc, bench/*.cc and, with device code, bench/gpu/*.cc. All but main.cc is a
# library, which tests link too.

file(GLOB flamia_tool_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tools/*.cc"
     "${PROJECT_SOURCE_DIR}/bench/*.cc")
if(FLAMIA_HAS_CUDA)
  file(GLOB flamia_gpu_benchmarks CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/bench/gpu/*.cc")
  list(APPEND flamia_tool_sources ${flamia_gpu_benchmarks})
endif()
set(flamia_main_source ${flamia_tool_sources})
list(FILTER flamia_main_source INCLUDE REGEX "/tools/main\\.cc$")
list(FILTER flamia_tool_sources EXCLUDE REGEX "/tools/main\\.cc$")
if(FLAMIA_BUILD_FUZZERS)
  # Fuzzers read tensor files; nothing else of the program is built for them.
  set(flamia_main_source "")
  list(FILTER flamia_tool_sources INCLUDE
       REGEX "/tools/(atomic_file|errors|host_tensor|tensor_file|tensor_header)\\.cc$")
endif()

if(flamia_tool_sources)
  add_library(flamia_tools STATIC ${flamia_tool_sources})
  flamia_add_flags(flamia_tools STRICT)
  target_include_directories(flamia_tools PUBLIC "${PROJECT_SOURCE_DIR}"
                                                 "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(flamia_tools PUBLIC flamia_static CLI11::CLI11 fmt::fmt
                                            nlohmann_json::nlohmann_json Eigen3::Eigen)
  if(FLAMIA_HAS_CUDA)
    target_include_directories(flamia_tools SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
    target_compile_definitions(flamia_tools PRIVATE FLAMIA_HAS_CUDA=1)
  endif()
  set(flamia_bench_sources ${flamia_tool_sources})
  list(FILTER flamia_bench_sources INCLUDE REGEX "/bench/")
  if(flamia_bench_sources AND TARGET benchmark::benchmark)
    target_link_libraries(flamia_tools PUBLIC benchmark::benchmark)
    target_compile_definitions(flamia_tools PRIVATE FLAMIA_HAVE_BENCHMARK=1)
  endif()
  if(flamia_bench_sources AND FLAMIA_OPENBLAS_INCLUDE_DIR AND FLAMIA_OPENBLAS_LIBRARY)
    target_include_directories(flamia_tools SYSTEM PRIVATE "${FLAMIA_OPENBLAS_INCLUDE_DIR}")
    target_link_libraries(flamia_tools PUBLIC "${FLAMIA_OPENBLAS_LIBRARY}")
    target_compile_definitions(flamia_tools PRIVATE FLAMIA_HAVE_OPENBLAS=1)
  endif()
endif()

if(flamia_main_source)
  add_executable(flamia_program ${flamia_main_source})
  flamia_add_flags(flamia_program STRICT)
  target_include_directories(flamia_program PRIVATE "${PROJECT_SOURCE_DIR}"
                                                    "${PROJECT_SOURCE_DIR}/src")
  target_link_libraries(flamia_program PRIVATE flamia_static CLI11::CLI11 fmt::fmt
                                               nlohmann_json::nlohmann_json)
  if(TARGET flamia_tools)
    target_link_libraries(flamia_program PRIVATE flamia_tools)
  endif()
  set_target_properties(flamia_program PROPERTIES OUTPUT_NAME flamia RUNTIME_OUTPUT_DIRECTORY
                                                  "${PROJECT_BINARY_DIR}")
endif()
