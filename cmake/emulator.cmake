# Library flamia_emulator: the virtual GPU, from src/emulator. It needs LZ4 and Zstandard for
# compressed device code (Debian: liblz4-dev, libzstd-dev), and nothing else of flamia but Status.

foreach(dependency IN ITEMS lz4 zstd)
  string(TOUPPER ${dependency} prefix)
  find_path(${prefix}_INCLUDE_DIR ${dependency}.h)
  find_library(${prefix}_LIBRARY ${dependency})
  mark_as_advanced(${prefix}_INCLUDE_DIR ${prefix}_LIBRARY)
  if(NOT ${prefix}_INCLUDE_DIR OR NOT ${prefix}_LIBRARY)
    message(FATAL_ERROR "the virtual GPU must have lib${dependency}-dev; run scripts/setup")
  endif()
endforeach()

file(GLOB_RECURSE flamia_emulator_sources CONFIGURE_DEPENDS
     "${PROJECT_SOURCE_DIR}/src/emulator/*.cc")
add_library(flamia_emulator STATIC ${flamia_emulator_sources}
                                   "${PROJECT_SOURCE_DIR}/src/base/status.cc")
flamia_add_flags(flamia_emulator STRICT)
target_include_directories(flamia_emulator PUBLIC "${PROJECT_SOURCE_DIR}/include"
                                                  "${PROJECT_SOURCE_DIR}/src")
target_include_directories(flamia_emulator SYSTEM PUBLIC "${LZ4_INCLUDE_DIR}"
                                                         "${ZSTD_INCLUDE_DIR}")
target_link_libraries(flamia_emulator PUBLIC "${LZ4_LIBRARY}" "${ZSTD_LIBRARY}" Threads::Threads)

# How fast each family of instructions is interpreted; built on request: --target vgpu_speed.
add_executable(vgpu_speed EXCLUDE_FROM_ALL "${PROJECT_SOURCE_DIR}/bench/vgpu_speed/vgpu_speed.cc")
flamia_add_flags(vgpu_speed STRICT)
target_include_directories(vgpu_speed PRIVATE "${PROJECT_SOURCE_DIR}")
target_link_libraries(vgpu_speed PRIVATE flamia_emulator)
