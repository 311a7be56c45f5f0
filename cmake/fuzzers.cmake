# Fuzzers: tests/fuzz/<name>_fuzz.cc becomes fuzz_<name>, a libFuzzer program with ASan and UBSan.
# Seeds are in tests/fuzz/seeds/<name>/; scripts/fuzz runs them all.

add_custom_target(fuzzers)
file(GLOB flamia_fuzz_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/fuzz/*_fuzz.cc")
foreach(source IN LISTS flamia_fuzz_sources)
  get_filename_component(name "${source}" NAME_WE)
  string(REGEX REPLACE "_fuzz$" "" name "${name}")
  add_executable(fuzz_${name} "${source}")
  flamia_add_flags(fuzz_${name})
  target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
  target_include_directories(fuzz_${name} PRIVATE "${PROJECT_SOURCE_DIR}"
                                                  "${PROJECT_SOURCE_DIR}/src")
  target_compile_definitions(fuzz_${name} PRIVATE FLAMIA_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  target_link_libraries(fuzz_${name} PRIVATE flamia_static flamia_emulator)
  if(TARGET flamia_tools)
    target_link_libraries(fuzz_${name} PRIVATE flamia_tools)
  endif()
  add_dependencies(fuzzers fuzz_${name})
endforeach()
