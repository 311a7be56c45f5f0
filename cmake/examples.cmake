# Examples: built and run as tests, so that they never rot.
file(GLOB flamia_example_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/examples/*.cc"
     "${PROJECT_SOURCE_DIR}/examples/*.c")
foreach(source IN LISTS flamia_example_sources)
  get_filename_component(name "${source}" NAME_WE)
  add_executable(example_${name} ${source})
  if(source MATCHES "\\.cc$")
    flamia_add_flags(example_${name})
  endif()
  target_link_libraries(example_${name} PRIVATE flamia_static)
  add_test(NAME examples/${name} COMMAND example_${name})
  set_tests_properties(examples/${name} PROPERTIES LABELS "cpu;examples")
endforeach()
