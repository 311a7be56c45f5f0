# Library flamia: one set of objects, linked as libflamia.a and as libflamia.so.

file(GLOB_RECURSE flamia_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/*.cc")
list(FILTER flamia_sources EXCLUDE REGEX "/src/emulator/")
if(NOT FLAMIA_HAS_CUDA)
  list(FILTER flamia_sources EXCLUDE REGEX "/src/cuda/")
endif()
if(NOT flamia_sources)
  # A library needs one source; this also keeps an early checkout buildable.
  file(WRITE "${PROJECT_BINARY_DIR}/generated/empty.cc" "")
  set(flamia_sources "${PROJECT_BINARY_DIR}/generated/empty.cc")
endif()
set(flamia_vector_sources ${flamia_sources})
list(FILTER flamia_vector_sources INCLUDE REGEX "/src/cpu/")
set_source_files_properties(${flamia_vector_sources} PROPERTIES
                            COMPILE_OPTIONS "${flamia_vector_flags}")
# Symbols are hidden, except what these files define: they hold the public functions.
set(flamia_public_sources ${flamia_sources})
list(FILTER flamia_public_sources INCLUDE REGEX "/src/(api/.*|base/status)\\.cc$")
set_source_files_properties(${flamia_public_sources} PROPERTIES
                            COMPILE_OPTIONS "-fvisibility=default")

add_library(flamia_objects OBJECT ${flamia_sources})
flamia_add_flags(flamia_objects STRICT)
target_include_directories(flamia_objects PRIVATE "${PROJECT_SOURCE_DIR}/include"
                                                  "${PROJECT_SOURCE_DIR}/src")
target_link_libraries(flamia_objects PRIVATE Eigen3::Eigen nlohmann_json::nlohmann_json Threads::Threads)

if(FLAMIA_HAS_CUDA)
  target_include_directories(flamia_objects SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
  target_compile_definitions(flamia_objects PRIVATE FLAMIA_HAS_CUDA=1)
endif()

add_library(flamia_static STATIC $<TARGET_OBJECTS:flamia_objects> ${flamia_kernel_objects})
add_library(flamia_shared SHARED $<TARGET_OBJECTS:flamia_objects> ${flamia_kernel_objects})
if(flamia_kernel_objects)
  # The runtime is linked statically, so that the library loads on machines without CUDA. Tests that
  # run on the virtual GPU set FLAMIA_SHARED_CUDART on their target.
  set(flamia_uses_shared "$<BOOL:$<TARGET_PROPERTY:FLAMIA_SHARED_CUDART>>")
  target_link_libraries(flamia_static INTERFACE
    "$<IF:${flamia_uses_shared},CUDA::cudart,CUDA::cudart_static>")
  target_link_libraries(flamia_shared PRIVATE CUDA::cudart_static)
endif()
foreach(library flamia_static flamia_shared)
  set_target_properties(${library} PROPERTIES OUTPUT_NAME flamia LINKER_LANGUAGE CXX)
  target_include_directories(
    ${library} INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                         $<INSTALL_INTERFACE:include>)
  target_compile_features(${library} INTERFACE cxx_std_20)
  target_link_libraries(${library} PRIVATE Threads::Threads)
endforeach()
target_link_options(flamia_static INTERFACE $<BUILD_INTERFACE:${flamia_instrument_link_flags}>)
target_link_options(flamia_shared PRIVATE ${flamia_instrument_link_flags})
if(NOT flamia_instrument_flags)
  target_link_options(flamia_shared PRIVATE LINKER:--no-undefined)
endif()
set_target_properties(flamia_shared PROPERTIES VERSION ${PROJECT_VERSION}
                                               SOVERSION ${PROJECT_VERSION_MAJOR})
set_target_properties(flamia_static PROPERTIES EXPORT_NAME static)
set_target_properties(flamia_shared PROPERTIES EXPORT_NAME shared)
add_library(flamia::static ALIAS flamia_static)
add_library(flamia::shared ALIAS flamia_shared)
add_library(flamia::flamia ALIAS flamia_static)
